//! The two sides of a call (RFC 3261, 12): where each of them is.
//!
//! A proxy need not know this if both sides send along the route set. Many do not: SIPp's built-in caller sends ACK and
//! BYE to where it sent the INVITE, without a Route. So the router remembers both sides, and sends each packet of a
//! dialog to its other side. A packet cannot name any other target, so this is no open proxy.

use std::net::SocketAddr;

use rsipstack::sip::{self, Header};
use serde::{Deserialize, Serialize};

use crate::wire::message::{Request, Response};
use crate::wire::saved;

/// The most dialogs of one call. A bound is needed because the answering endpoint chooses the tags.
const MOST: usize = 16;

/// The dialogs of one call. There may be several: each place that rings begins one, and two may answer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Dialogs {
    caller: Side,
    called: Vec<Side>,
}

/// One side of a call.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Side {
    /// Its tag.
    pub(crate) tag: String,
    /// Where its packets come from.
    pub(crate) address: SocketAddr,
    /// Its Contact.
    #[serde(with = "saved::maybe_uri")]
    pub(crate) contact: Option<sip::Uri>,
    confirmed: bool,
    ended: bool,
}

impl Dialogs {
    /// The dialogs of `invite`, before any answer.
    pub(crate) fn new(invite: &Request) -> Dialogs {
        let caller = Side {
            tag: invite.from_tag.clone(),
            address: invite.source,
            contact: contact(&invite.sip.headers),
            confirmed: true,
            ended: false,
        };
        Dialogs {
            caller,
            called: Vec::new(),
        }
    }

    /// Takes an answer to the INVITE, which begins or confirms a dialog. Returns true if this answer confirms it.
    pub(crate) fn answered(&mut self, response: &Response) -> bool {
        let Some(tag) = &response.to_tag else {
            return false;
        };
        let ok = response.status >= 200;
        let full = self.called.len() >= MOST;
        match self.called.iter_mut().find(|side| side.tag == *tag) {
            Some(side) => {
                let confirmed = ok && !side.confirmed;
                side.confirmed |= ok;
                side.address = response.source;
                if let Some(contact) = contact(&response.sip.headers) {
                    side.contact = Some(contact);
                }
                confirmed
            }
            None if full => false,
            None => {
                self.called.push(Side {
                    tag: tag.clone(),
                    address: response.source,
                    contact: contact(&response.sip.headers),
                    confirmed: ok,
                    ended: false,
                });
                ok
            }
        }
    }

    /// Returns the other side of the dialog of `request`, and the dialog's name: the tag of the called side. Returns
    /// `None` if there is no such dialog (481).
    pub(crate) fn other_side(&self, request: &Request) -> Option<(&str, &Side)> {
        let to = request.to_tag.as_deref()?;
        if request.from_tag == self.caller.tag {
            let side = self.called.iter().find(|side| side.tag == to)?;
            Some((&side.tag, side))
        } else {
            let side = self
                .called
                .iter()
                .find(|side| side.tag == request.from_tag && to == self.caller.tag)?;
            Some((&side.tag, &self.caller))
        }
    }

    /// Frees unused capacity.
    pub(crate) fn shrink(&mut self) {
        self.called.shrink_to_fit();
    }

    /// Marks the dialog as hung up.
    pub(crate) fn ended(&mut self, tag: &str) {
        for side in self.called.iter_mut().filter(|side| side.tag == tag) {
            side.ended = true;
        }
    }

    /// Returns true while a dialog is confirmed and not ended.
    pub(crate) fn open(&self) -> bool {
        self.called.iter().any(|side| side.confirmed && !side.ended)
    }
}

impl Side {
    /// Returns the Request-URI to use for `request`. If the request names the router itself, this is the side's
    /// Contact; `None` keeps the request's own URI.
    pub(crate) fn target(&self, request: &Request, us: SocketAddr) -> Option<&sip::Uri> {
        let names_us = crate::wire::message::address(&request.sip.uri) == Some(us);
        if names_us {
            self.contact.as_ref()
        } else {
            None
        }
    }
}

/// The URI in Contact.
fn contact(headers: &sip::Headers) -> Option<sip::Uri> {
    headers.iter().find_map(|header| match header {
        Header::Contact(contact) => sip::typed::Contact::parse(contact.value())
            .ok()
            .map(|contact| contact.uri),
        _ => None,
    })
}
