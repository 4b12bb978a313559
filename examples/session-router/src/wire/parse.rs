//! Turns a datagram into a [`Message`], or into the reason for its refusal.
//!
//! Each datagram comes from a stranger. The router answers a faulty request where the RFC says so and the packet names
//! a receiver. It drops everything else that is wrong. It counts both. Neither costs more than the time of one look:
//! sizes are limited before anything is copied.

use std::net::SocketAddr;

use rsipstack::sip::{self, Header, HeadersExt, Method, SipMessage, ToTypedHeader};

use super::message::{COOKIE, MAX_FORWARDS, Message, Request, Response, TransactionKey, answer};

/// The longest datagram that the router reads. SIP over UDP should stay under 1,300 bytes (RFC 3261, 18.1.1).
pub const LARGEST: usize = 16 * 1024;

/// The most header lines of one message.
const MOST_HEADERS: usize = 128;

/// The longest Call-ID: the router keeps it as a key for as long as the call lives.
const LONGEST_CALL_ID: usize = 256;

/// The reason why a datagram goes no further.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// No answer: the datagram is a response, an ACK, or noise.
    Drop(&'static str),
    /// The sender gets an answer.
    Answer {
        /// The status of the answer.
        status: u16,
        /// The reason, for the count.
        why: &'static str,
        /// The receiver of the answer.
        to: SocketAddr,
        /// The answer.
        bytes: Vec<u8>,
    },
}

/// Reads one datagram.
///
/// # Errors
///
/// [`Fault`] says what is wrong with the datagram, and carries the answer if there is one.
pub fn parse(datagram: &[u8], source: SocketAddr) -> Result<Message, Fault> {
    let end = datagram.windows(4).position(|four| four == b"\r\n\r\n");
    // A keep-alive is a CRLF or two (RFC 5626, 3.5.1); without an end of the headers there is no message.
    let end = end.filter(|end| *end > 0).ok_or(Fault::Drop(
        if datagram.iter().all(u8::is_ascii_whitespace) {
            "keep-alive"
        } else {
            "no end of headers"
        },
    ))?;
    if end > LARGEST {
        return Err(Fault::Drop("too long"));
    }
    let head = std::str::from_utf8(&datagram[..end]).map_err(|_| Fault::Drop("not UTF-8"))?;
    if head
        .chars()
        .any(|c| c.is_control() && !matches!(c, '\r' | '\n' | '\t'))
    {
        return Err(Fault::Drop("control characters"));
    }
    // The next hop could read a line that ends in half a CRLF differently.
    if head.split("\r\n").any(|line| line.contains(['\r', '\n'])) {
        return Err(Fault::Drop("bare CR or LF"));
    }
    if head.split("\r\n").count() > MOST_HEADERS {
        return Err(Fault::Drop("too many headers"));
    }

    let is_response = head.starts_with("SIP/");
    let refuse = |status, why| {
        if is_response {
            Fault::Drop(why)
        } else {
            salvage(head, source, status, why)
        }
    };
    if datagram.len() > LARGEST {
        return Err(refuse(513, "too long"));
    }
    if !is_response {
        check_request_line(head).map_err(|(status, why)| refuse(status, why))?;
    }
    match sip::parser::parse_message(datagram) {
        Ok(SipMessage::Request(sip)) => {
            check_headers(&sip.headers, datagram.len() - end - 4)
                .map_err(|why| refuse(400, why))?;
            request(sip, source)
                .map_err(|why| refuse(400, why))
                .map(|request| Message::Request(Box::new(request)))
        }
        Ok(SipMessage::Response(sip)) => {
            check_headers(&sip.headers, datagram.len() - end - 4).map_err(Fault::Drop)?;
            response(sip, source)
                .map_err(Fault::Drop)
                .map(|response| Message::Response(Box::new(response)))
        }
        Err(_) => Err(refuse(400, "unreadable")),
    }
}

/// How far into a datagram [`call_id`] looks.
const GLANCE: usize = 4096;

/// The Call-ID of a datagram, without reading the rest. It is enough to find the call of a packet. Only [`parse`] knows
/// whether the datagram is a message, and it joins a Call-ID that continues in the next line.
pub fn call_id(datagram: &[u8]) -> Option<&str> {
    let head = &datagram[..datagram.len().min(GLANCE)];
    head.split(|byte| *byte == b'\n').find_map(|line| {
        // The first byte rules out most lines.
        if !matches!(line.first(), Some(b'C' | b'c' | b'I' | b'i')) {
            return None;
        }
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = line[..colon].trim_ascii_end();
        if !name.eq_ignore_ascii_case(b"Call-ID") && !name.eq_ignore_ascii_case(b"i") {
            return None;
        }
        let value = line[colon + 1..].trim_ascii();
        (value.len() <= LONGEST_CALL_ID).then_some(std::str::from_utf8(value).ok()?)
    })
}

/// Checks the first line before the parser does, to tell the reasons apart.
fn check_request_line(head: &str) -> Result<(), (u16, &'static str)> {
    let line = head.split("\r\n").next().unwrap_or("");
    let mut parts = line.split(' ');
    let (Some(method), Some(uri), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err((400, "request line"));
    };
    let token = |c: char| c.is_ascii_alphanumeric() || "-.!%*_+`'~".contains(c);
    if method.is_empty() || !method.chars().all(token) {
        return Err((400, "request line"));
    }
    if !version.starts_with("SIP/") {
        return Err((400, "request line"));
    }
    if version != "SIP/2.0" {
        return Err((505, "version"));
    }
    // Methods are case-sensitive (RFC 3261, 7.1), the parser's are not.
    if !Method::all()
        .iter()
        .any(|known| known.to_string() == method)
    {
        return Err((501, "unknown method"));
    }
    if !uri.starts_with("sip:") {
        return Err((416, "scheme"));
    }
    // No URI has these characters (RFC 2396, 2.4.3); the parser would remove some of them.
    if uri.contains(['<', '>', '"', '{', '}', '|', '\\', '^', '`']) {
        return Err((400, "Request-URI"));
    }
    Ok(())
}

/// Checks the headers that both kinds of messages must have, once each (RFC 3261, 8.1.1 and 20).
fn check_headers(headers: &sip::Headers, body: usize) -> Result<(), &'static str> {
    let count = |name: fn(&Header) -> bool| headers.iter().filter(|header| name(header)).count();
    if count(|header| matches!(header, Header::CallId(_))) != 1 {
        return Err("Call-ID");
    }
    if count(|header| matches!(header, Header::CSeq(_))) != 1 {
        return Err("CSeq");
    }
    if count(|header| matches!(header, Header::From(_))) != 1 {
        return Err("From");
    }
    if count(|header| matches!(header, Header::To(_))) != 1 {
        return Err("To");
    }
    if count(|header| matches!(header, Header::MaxForwards(_))) > 1 {
        return Err("Max-Forwards");
    }
    let mut lengths = headers.iter().filter_map(|header| match header {
        Header::ContentLength(length) => Some(length.value().trim().parse::<usize>()),
        _ => None,
    });
    match (lengths.next(), lengths.next()) {
        // RFC 3261, 18.3: a body that is too short is an error, and a longer one is cut.
        (None, _) => Ok(()),
        (Some(Ok(length)), None) if length <= body => Ok(()),
        _ => Err("Content-Length"),
    }
}

/// Reads the facts of a request.
fn request(mut sip: sip::Request, source: SocketAddr) -> Result<Request, &'static str> {
    let (cseq, method) = cseq(&sip.headers)?;
    if method != sip.method {
        return Err("CSeq");
    }
    let via = top_via(&sip.headers)?;
    let branch = via
        .branch()
        .map(|branch| branch.value().to_owned())
        .unwrap_or_default();
    if branch.len() <= COOKIE.len() || !branch.starts_with(COOKIE) {
        return Err("branch");
    }
    let key = TransactionKey {
        branch,
        sent_by: via.sent_by().to_string(),
    };
    // If the client asks for it (RFC 3581), the answer goes to the port that the request came from. Otherwise it goes
    // to the port in the Via. The address is always the one that the request came from. So no sender can point answers
    // at a third party.
    let port = match via.rport() {
        Some(_) => source.port(),
        None => via
            .sent_by()
            .port
            .as_ref()
            .map_or(5060, |port| port.value()),
    };
    let reply_to = SocketAddr::new(source.ip(), port);
    note_source(&mut sip.headers, &via, source)?;
    let from_tag = tag(sip.from_header().ok().map(|from| from.tag()), "From")?.ok_or("From")?;
    let to_tag = tag(sip.to_header().ok().map(|to| to.tag()), "To")?;
    let max_forwards = match sip.max_forwards_header() {
        Ok(header) => header.value().trim().parse().map_err(|_| "Max-Forwards")?,
        Err(_) => MAX_FORWARDS,
    };
    let call_id = read_call_id(&sip.headers)?;
    Ok(Request {
        source,
        reply_to,
        key,
        call_id,
        cseq,
        from_tag,
        to_tag,
        max_forwards,
        sip,
    })
}

/// Reads the facts of a response.
fn response(sip: sip::Response, source: SocketAddr) -> Result<Response, &'static str> {
    let (_, method) = cseq(&sip.headers)?;
    let via = top_via(&sip.headers)?;
    let branch = via.branch().ok_or("branch")?.value().to_owned();
    let sent_by = via.sent_by().to_string();
    let status = sip.status_code.code();
    if !(100..700).contains(&status) {
        return Err("status");
    }
    tag(sip.from_header().ok().map(|from| from.tag()), "From")?;
    let to_tag = tag(sip.to_header().ok().map(|to| to.tag()), "To")?;
    let call_id = read_call_id(&sip.headers)?;
    Ok(Response {
        source,
        status,
        branch,
        sent_by,
        method,
        call_id,
        to_tag,
        sip,
    })
}

fn read_call_id(headers: &sip::Headers) -> Result<String, &'static str> {
    let value = headers.iter().find_map(|header| match header {
        Header::CallId(call_id) => Some(call_id.value().trim()),
        _ => None,
    });
    match value {
        Some(value) if !value.is_empty() && value.len() <= LONGEST_CALL_ID => Ok(value.to_owned()),
        _ => Err("Call-ID"),
    }
}

fn cseq(headers: &sip::Headers) -> Result<(u32, Method), &'static str> {
    let value = headers.iter().find_map(|header| match header {
        Header::CSeq(cseq) => Some(cseq.value()),
        _ => None,
    });
    let (number, method) = value
        .and_then(|value| value.trim().split_once([' ', '\t']))
        .ok_or("CSeq")?;
    let number: u32 = number.parse().map_err(|_| "CSeq")?;
    // RFC 3261, 8.1.1.5: less than 2^31.
    if number >= 1 << 31 {
        return Err("CSeq");
    }
    Ok((number, method.trim().parse().map_err(|_| "CSeq")?))
}

fn top_via(headers: &sip::Headers) -> Result<sip::typed::Via, &'static str> {
    let first = headers.iter().find_map(|header| match header {
        Header::Via(via) => Some(via),
        _ => None,
    });
    first
        .and_then(|via| via.first_value().ok())
        .and_then(|via| via.typed().ok())
        .ok_or("Via")
}

fn tag(
    tag: Option<Result<Option<sip::param::Tag>, sip::Error>>,
    header: &'static str,
) -> Result<Option<String>, &'static str> {
    match tag {
        Some(Ok(tag)) => Ok(tag
            .map(|tag| tag.value().to_owned())
            .filter(|tag| !tag.is_empty())),
        _ => Err(header),
    }
}

/// Notes in the top Via where the request really came from (RFC 3261, 18.2.1; RFC 3581, 4).
fn note_source(
    headers: &mut sip::Headers,
    via: &sip::typed::Via,
    source: SocketAddr,
) -> Result<(), &'static str> {
    let asked = via.rport().is_some();
    if !asked && via.sent_by().host.to_string() == source.ip().to_string() {
        return Ok(());
    }
    let port = if asked {
        format!(";rport={}", source.port())
    } else {
        String::new()
    };
    let top = headers.iter_mut().find_map(|header| match header {
        Header::Via(top) => Some(top),
        _ => None,
    });
    // The other parameters go back to the client as the client wrote them.
    top.ok_or("Via")?
        .update_first_value(|first| {
            let kept = parameters(first.value()).filter(|parameter| {
                let name = parameter.split('=').next().unwrap_or("").trim();
                !name.eq_ignore_ascii_case("received") && !name.eq_ignore_ascii_case("rport")
            });
            let kept = kept.collect::<Vec<_>>().join(";");
            Ok(sip::Via::new(format!(
                "{kept};received={}{port}",
                source.ip()
            )))
        })
        .map_err(|_| "Via")
}

/// Splits at semicolons, but not at those inside quotes.
fn parameters(value: &str) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    value.split(move |c| {
        let parts = c == ';' && !quoted;
        quoted ^= c == '"' && !escaped;
        escaped = c == '\\' && quoted && !escaped;
        parts
    })
}

/// Answers a request that cannot be read, and echoes what it can. Drops the request if there is not even a Via, since
/// then there is no way back.
fn salvage(head: &str, source: SocketAddr, status: u16, why: &'static str) -> Fault {
    if head.starts_with("ACK ") {
        return Fault::Drop(why); // an ACK is never answered
    }
    let Some((_, lines)) = head.split_once("\r\n") else {
        return Fault::Drop(why);
    };
    // The parser tries again, with the same headers under a first line that it can read.
    let readable = format!("SIP/2.0 400 Bad Request\r\n{lines}\r\n\r\n");
    let Ok(SipMessage::Response(echo)) = sip::parser::parse_message(readable.as_bytes()) else {
        return Fault::Drop(why);
    };
    let mut headers = echo.headers;
    let Ok(via) = top_via(&headers) else {
        return Fault::Drop(why);
    };
    let port = match via.rport() {
        Some(_) => source.port(),
        None => via
            .sent_by()
            .port
            .as_ref()
            .map_or(5060, |port| port.value()),
    };
    let has = |name: fn(&Header) -> bool| headers.iter().any(name);
    if !has(|header| matches!(header, Header::From(_)))
        || !has(|header| matches!(header, Header::CallId(_)))
    {
        return Fault::Drop(why);
    }
    let _ = note_source(&mut headers, &via, source);
    let more = format!("Warning: 399 session-router \"{why}\"\r\n");
    let bytes = answer(&headers, status, "unread", &more);
    Fault::Answer {
        status,
        why,
        to: SocketAddr::new(source.ip(), port),
        bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: &str = "127.0.0.1:5062";

    fn read(text: &str) -> Result<Message, Fault> {
        parse(text.as_bytes(), FROM.parse().expect("an address"))
    }

    fn invite(change: impl Fn(&str) -> String) -> String {
        change(
            "INVITE sip:bob@127.0.0.1:5060 SIP/2.0\r\n\
             Via: SIP/2.0/UDP 127.0.0.1:5062;branch=z9hG4bK1\r\n\
             From: <sip:a@127.0.0.1>;tag=1\r\n\
             To: <sip:bob@127.0.0.1>\r\n\
             Call-ID: one\r\n\
             CSeq: 1 INVITE\r\n\
             Max-Forwards: 70\r\n\
             Content-Length: 0\r\n\r\n",
        )
    }

    fn status(text: &str) -> u16 {
        match read(text) {
            Err(Fault::Answer { status, .. }) => status,
            other => panic!("expected an answer to {text:?}, got {other:?}"),
        }
    }

    #[test]
    fn a_request_is_read() {
        let Ok(Message::Request(request)) = read(&invite(str::to_owned)) else {
            panic!("not read")
        };
        assert_eq!(request.user(), Some("bob"));
        assert_eq!(
            (
                request.cseq,
                request.call_id.as_str(),
                request.from_tag.as_str()
            ),
            (1, "one", "1")
        );
        assert_eq!(request.to_tag, None);
        assert_eq!(request.reply_to, FROM.parse().expect("an address"));
    }

    #[test]
    fn answers_go_where_the_packet_came_from() {
        let text = invite(|text| text.replace("127.0.0.1:5062;", "10.9.8.7:5999;rport;"));
        let Ok(Message::Request(request)) = read(&text) else {
            panic!("not read")
        };
        assert_eq!(request.reply_to, FROM.parse().expect("an address"));
        let via = request.sip.via_header().expect("a Via").value().to_owned();
        assert!(
            via.contains("received=127.0.0.1") && via.contains("rport=5062"),
            "{via}"
        );
    }

    #[test]
    fn an_address_may_be_long() {
        let text = invite(|text| text.replace("127.0.0.1:5062;", "[::1]:5062;"));
        let source = "[::1]:5062".parse().expect("an address");
        let Ok(Message::Request(request)) = parse(text.as_bytes(), source) else {
            panic!("not read")
        };
        assert_eq!(request.key.sent_by, source.to_string());
        assert_eq!(request.reply_to, source);
    }

    #[test]
    fn what_is_wrong_with_a_request_is_said() {
        assert_eq!(
            status(&invite(
                |text| text.replace("SIP/2.0\r\nVia", "SIP/3.0\r\nVia")
            )),
            505
        );
        assert_eq!(status(&invite(|text| text.replace("INVITE", "JUMP"))), 501);
        assert_eq!(
            status(&invite(
                |text| text.replace("sip:bob@127.0.0.1:5060", "http://x")
            )),
            416
        );
        for (from, to) in [
            ("CSeq: 1 INVITE", "CSeq: 1 BYE"),
            ("CSeq: 1 INVITE", "CSeq: 4294967295 INVITE"),
            ("CSeq: 1 INVITE\r\n", ""),
            ("To: <sip:bob@127.0.0.1>\r\n", ""),
            (";tag=1", ""),
            ("Call-ID: one", "Call-ID: one\r\nCall-ID: two"),
            ("Content-Length: 0", "Content-Length: 9"),
            ("Content-Length: 0", "Content-Length: -1"),
            (
                "Content-Length: 0",
                "Content-Length: 0\r\nContent-Length: 1",
            ),
            ("Max-Forwards: 70", "Max-Forwards: many"),
            ("z9hG4bK1", "1"),
            (
                "INVITE sip:bob@127.0.0.1:5060 SIP/2.0",
                "INVITE  sip:bob@127.0.0.1:5060 SIP/2.0",
            ),
        ] {
            assert_eq!(
                status(&invite(|text| text.replacen(from, to, 1))),
                400,
                "{from:?} -> {to:?}"
            );
        }
    }

    #[test]
    fn what_cannot_be_answered_is_dropped() {
        for text in [
            "".to_owned(),
            "\r\n\r\n".to_owned(),
            "hello".to_owned(),
            "\0\0\0\0\r\n\r\n".to_owned(),
            invite(|text| text.replace("Via: SIP/2.0/UDP 127.0.0.1:5062;branch=z9hG4bK1\r\n", "")),
            invite(|text| text.replace("Call-ID: one\r\n", "")),
            invite(|text| {
                text.replace("INVITE", "ACK")
                    .replace("CSeq: 1 ACK", "CSeq: x ACK")
            }),
            invite(|text| {
                text.replace("INVITE sip:bob@127.0.0.1:5060 SIP/2.0", "SIP/2.0 999 What")
            }),
            invite(|text| text.replace("Max", "X: y\nMax")),
            invite(|text| text.replace("Max", "X: y\0\r\nMax")),
            invite(|text| text.replace("Max", &format!("{}Max", "X: y\r\n".repeat(200)))),
        ] {
            assert!(
                matches!(read(&text), Err(Fault::Drop(_))),
                "{text:?} gave {:?}",
                read(&text)
            );
        }
    }

    #[test]
    fn the_call_id_is_found_at_a_glance() {
        let text = invite(str::to_owned);
        for (from, to, found) in [
            ("Call-ID: one", "Call-ID: one", Some("one")),
            ("Call-ID: one", "call-id :one  ", Some("one")),
            ("Call-ID: one", "i:one@two", Some("one@two")),
            ("Call-ID: one", "Call-IDs: one", None),
            ("Call-ID: one\r\n", "", None),
        ] {
            assert_eq!(call_id(text.replace(from, to).as_bytes()), found, "{to}");
        }
        assert_eq!(call_id(b""), None);
        assert_eq!(call_id(&[b'\n'; 65_536]), None);
        assert_eq!(call_id(b"Call-ID: \xff\xfe\r\n"), None);
    }

    #[test]
    fn a_message_that_is_too_long_is_refused() {
        let long = invite(|text| {
            text.replace("Content-Length: 0\r\n\r\n", "Content-Length: 20000\r\n\r\n")
        });
        assert_eq!(status(&(long + &"x".repeat(20_000))), 513);
    }
}
