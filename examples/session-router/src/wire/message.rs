//! Requests and responses as the router sees them.
//!
//! [`rsipstack::sip`] provides the header values and the text form. This module does what a proxy does to messages. It
//! knows a few facts of each, pushes and pops Via values, and writes the router's own answers.

use std::fmt::Write as _;
use std::net::SocketAddr;

use rsipstack::sip::{self, Header, HeadersExt, Method};
use serde::{Deserialize, Serialize};

use super::saved;

/// The start of every branch that names one transaction (RFC 3261, 8.1.1.7).
pub const COOKIE: &str = "z9hG4bK";

/// The default number of hops of a request (RFC 3261, 16.6 step 3).
pub const MAX_FORWARDS: u8 = 70;

/// One message that has passed [`parse`](super::parse::parse).
#[derive(Debug)]
pub enum Message {
    /// A request.
    Request(Box<Request>),
    /// A response.
    Response(Box<Response>),
}

/// The sender's name for its transaction (RFC 3261, 17.2.3). The method is not part of it: an ACK and a CANCEL carry
/// the branch of their INVITE.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionKey {
    /// The branch of the top Via.
    pub branch: String,
    /// The sent-by of the top Via, so that two clients with the same branch stay apart.
    pub sent_by: String,
}

/// A request, with the facts that a proxy needs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request {
    /// The whole message. Its top Via says where it really came from (RFC 3261, 18.2.1; RFC 3581).
    #[serde(with = "saved::request")]
    pub sip: sip::Request,
    /// The address that the packet came from.
    pub source: SocketAddr,
    /// The address for answers (RFC 3261, 18.2.2).
    pub reply_to: SocketAddr,
    /// The transaction.
    pub key: TransactionKey,
    /// Call-ID: the key of the call.
    pub call_id: String,
    /// The number in CSeq.
    pub cseq: u32,
    /// The tag of the sender.
    pub from_tag: String,
    /// The tag of the receiver, present only inside a dialog.
    pub to_tag: Option<String>,
    /// The remaining hops.
    pub max_forwards: u8,
}

/// A response, with the facts that a proxy needs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Response {
    /// The whole message.
    #[serde(with = "saved::response")]
    pub sip: sip::Response,
    /// The address that the packet came from.
    pub source: SocketAddr,
    /// The status, 100 to 699.
    pub status: u16,
    /// The branch of the top Via, which is the router's own if the response is for the router.
    pub branch: String,
    /// The sent-by of the top Via.
    pub sent_by: String,
    /// The method in CSeq: INVITE and CANCEL share a branch.
    #[serde(with = "saved::text")]
    pub method: Method,
    /// Call-ID.
    pub call_id: String,
    /// The tag of the answering side.
    pub to_tag: Option<String>,
}

impl Message {
    /// Returns the Call-ID, which every message has.
    pub fn call_id(&self) -> &str {
        match self {
            Message::Request(request) => &request.call_id,
            Message::Response(response) => &response.call_id,
        }
    }
}

impl Request {
    /// Returns the method.
    pub fn method(&self) -> Method {
        self.sip.method
    }

    /// Returns the user in the Request-URI: its left side.
    pub fn user(&self) -> Option<&str> {
        self.sip.uri.user()
    }

    /// Returns an answer to this request, as bytes (RFC 3261, 8.2.6). `to_tag` is added if To has no tag; `more` holds
    /// whole header lines.
    pub fn answer(&self, status: u16, to_tag: &str, more: &str) -> Vec<u8> {
        answer(&self.sip.headers, status, to_tag, more)
    }

    /// Returns the request for `target` (RFC 3261, 16.6): one hop less, the router's Via on top, and the router's Route
    /// removed. With `record`, the router puts itself in the path of later requests.
    pub fn forward(
        &self,
        target: Option<&sip::Uri>,
        branch: &str,
        us: SocketAddr,
        record: bool,
    ) -> sip::Request {
        let mut sip = self.sip.clone();
        if let Some(target) = target {
            sip.uri = target.clone();
        }
        let left = self.max_forwards.saturating_sub(1);
        sip.headers
            .retain(|header| !matches!(header, Header::MaxForwards(_)));
        pop_own_route(&mut sip.headers, us);
        if record {
            let own = sip::RecordRoute::new(format!("<sip:{us};lr>"));
            sip.headers.push_front(Header::RecordRoute(own));
        }
        sip.headers
            .push_front(Header::MaxForwards(sip::MaxForwards::new(left.to_string())));
        push_via(&mut sip.headers, us, branch);
        sip
    }
}

impl Response {
    /// Returns the response without the Via that brought it here (RFC 3261, 16.7 step 3). Returns `None` if no Via is
    /// left to say where it should go.
    pub fn forward(&self) -> Option<Vec<u8>> {
        let mut sip = self.sip.clone();
        pop_via(&mut sip.headers);
        sip.via_header().ok()?;
        Some(sip.to_bytes())
    }
}

/// Puts the router's Via on top.
fn push_via(headers: &mut sip::Headers, us: SocketAddr, branch: &str) {
    let via = sip::Via::new(format!("SIP/2.0/UDP {us};branch={branch}"));
    headers.push_front(Header::Via(via));
}

/// Removes the top Via **value**. One header may hold several, comma-joined: some clients (SIPp among them) echo the
/// router's and their own that way. A proxy that removes the whole header loses the way back.
pub fn pop_via(headers: &mut sip::Headers) {
    let Some(at) = headers
        .0
        .iter()
        .position(|header| matches!(header, Header::Via(_)))
    else {
        return;
    };
    if let Header::Via(via) = &mut headers.0[at]
        && let Some(rest) = after_first(via)
    {
        via.replace(rest);
        return;
    }
    headers.0.remove(at);
}

/// Returns what follows the first value of a comma-joined Via.
fn after_first(via: &sip::Via) -> Option<String> {
    let first = via.first_value().ok()?;
    let rest = via.value().trim().get(first.value().len()..)?.trim_start();
    let rest = rest.strip_prefix(',')?.trim();
    (!rest.is_empty()).then(|| rest.to_owned())
}

/// Removes the topmost Route if it names the router (RFC 3261, 16.4).
fn pop_own_route(headers: &mut sip::Headers, us: SocketAddr) {
    let us = us.to_string();
    let Some(at) = headers
        .0
        .iter()
        .position(|header| matches!(header, Header::Route(_)))
    else {
        return;
    };
    let Header::Route(route) = &mut headers.0[at] else {
        return;
    };
    let value = route.value().trim().to_owned();
    let (first, rest) = value.split_once(',').unwrap_or((&value, ""));
    if !first.contains(&us) {
        return;
    }
    if rest.trim().is_empty() {
        headers.0.remove(at);
    } else {
        route.replace(rest.trim());
    }
}

/// Writes an answer that echoes `headers` (RFC 3261, 8.2.6.2).
pub fn answer(headers: &sip::Headers, status: u16, to_tag: &str, more: &str) -> Vec<u8> {
    let mut text = String::with_capacity(512);
    let _ = write!(text, "SIP/2.0 {status} {}\r\n", reason(status));
    for header in headers.iter() {
        match header {
            Header::To(to) => {
                let tagged = status == 100 || matches!(to.tag(), Ok(Some(_)) | Err(_));
                let _ = if tagged {
                    write!(text, "{header}\r\n")
                } else {
                    write!(text, "{header};tag={to_tag}\r\n")
                };
            }
            Header::Via(_) | Header::From(_) | Header::CallId(_) | Header::CSeq(_) => {
                let _ = write!(text, "{header}\r\n");
            }
            Header::Timestamp(_) if status == 100 => {
                let _ = write!(text, "{header}\r\n");
            }
            _ => {}
        }
    }
    text.push_str(more);
    text.push_str("Content-Length: 0\r\n\r\n");
    text.into_bytes()
}

/// Returns the ACK for a final answer that is not a 2xx. It belongs to the transaction of the INVITE, so it has the
/// same branch (RFC 3261, 17.1.1.3).
pub fn ack(invite: &sip::Request, refusal: &sip::Response) -> Vec<u8> {
    let to = refusal
        .headers
        .iter()
        .find(|header| matches!(header, Header::To(_)));
    hop_by_hop("ACK", invite, to)
}

/// Returns the CANCEL of a forwarded INVITE (RFC 3261, 9.1).
pub fn cancel(invite: &sip::Request) -> Vec<u8> {
    hop_by_hop("CANCEL", invite, None)
}

/// Writes a request about an INVITE of the router, for the next hop only.
fn hop_by_hop(method: &str, invite: &sip::Request, to: Option<&Header>) -> Vec<u8> {
    let mut text = String::with_capacity(512);
    let _ = write!(text, "{method} {} SIP/2.0\r\n", invite.uri);
    let mut topmost = true;
    for header in invite.headers.iter() {
        match header {
            Header::Via(_) if std::mem::take(&mut topmost) => {
                let _ = write!(text, "{header}\r\n");
            }
            Header::To(_) => {
                let _ = write!(text, "{}\r\n", to.unwrap_or(header));
            }
            Header::From(_) | Header::CallId(_) | Header::Route(_) => {
                let _ = write!(text, "{header}\r\n");
            }
            Header::CSeq(cseq) => {
                let _ = write!(text, "CSeq: {} {method}\r\n", cseq.seq().unwrap_or(1));
            }
            _ => {}
        }
    }
    let _ = write!(
        text,
        "Max-Forwards: {MAX_FORWARDS}\r\nContent-Length: 0\r\n\r\n"
    );
    text.into_bytes()
}

/// Returns the usual words for a status.
pub fn reason(status: u16) -> String {
    match status {
        482 => "Loop Detected".to_owned(),
        status => sip::StatusCode::from(status).text().to_owned(),
    }
}

/// Returns the address in a URI, if its host is a number. The router resolves no names.
pub fn address(uri: &sip::Uri) -> Option<SocketAddr> {
    let host = &uri.host_with_port;
    let sip::Host::IpAddr(ip) = host.host else {
        return None;
    };
    Some(SocketAddr::new(
        ip,
        host.port.as_ref().map_or(5060, |port| port.value()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &str) -> sip::Headers {
        let text = format!("SIP/2.0 200 OK\r\n{lines}Content-Length: 0\r\n\r\n");
        sip::Response::try_from(text.as_str())
            .expect("a response")
            .headers
    }

    fn vias(headers: &sip::Headers) -> Vec<String> {
        headers
            .iter()
            .filter(|header| matches!(header, Header::Via(_)))
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn the_top_via_value_goes_and_not_its_header() {
        let mut joined = headers(
            "Via: SIP/2.0/UDP r:5060;branch=z9hG4bK1 , SIP/2.0/UDP c:5062;branch=z9hG4bK2\r\n",
        );
        pop_via(&mut joined);
        assert_eq!(vias(&joined), ["Via: SIP/2.0/UDP c:5062;branch=z9hG4bK2"]);
        pop_via(&mut joined);
        assert!(vias(&joined).is_empty());
    }

    #[test]
    fn the_topmost_of_two_via_headers_goes() {
        let mut two =
            headers("Via: SIP/2.0/UDP r;branch=z9hG4bK1\r\nVia: SIP/2.0/UDP c;branch=z9hG4bK2\r\n");
        pop_via(&mut two);
        assert_eq!(vias(&two), ["Via: SIP/2.0/UDP c;branch=z9hG4bK2"]);
    }

    #[test]
    fn a_comma_inside_quotes_parts_nothing() {
        let mut quoted = headers(
            "Via: SIP/2.0/UDP r;x=\"a,b\";branch=z9hG4bK1, SIP/2.0/UDP c;branch=z9hG4bK2\r\n",
        );
        pop_via(&mut quoted);
        assert_eq!(vias(&quoted), ["Via: SIP/2.0/UDP c;branch=z9hG4bK2"]);
    }

    #[test]
    fn only_our_own_route_is_taken_off() {
        let us: SocketAddr = "127.0.0.1:5060".parse().expect("an address");
        let mut ours = headers("Route: <sip:127.0.0.1:5060;lr>, <sip:10.0.0.1;lr>\r\n");
        pop_own_route(&mut ours, us);
        assert!(ours.to_string().contains("Route: <sip:10.0.0.1;lr>\r\n"));
        let mut foreign = headers("Route: <sip:10.0.0.1;lr>\r\n");
        pop_own_route(&mut foreign, us);
        assert!(foreign.to_string().contains("10.0.0.1"));
    }
}
