//! REGISTER: one fom for each request (RFC 3261, 10.3).
//!
//! The router keeps nothing of a REGISTER after its answer. What the REGISTER changes is in the user's [`bindings`],
//! which order the updates of one client by their CSeq. So a repeated request changes nothing and gets the same answer.
//! For the same reason a REGISTER need not survive: a client without an answer sends it again.

use std::fmt::Write as _;
use std::time::Duration;

use fom_runtime::prelude::*;
use rsipstack::sip::{self, Header, HeadersExt};

use crate::bindings::{self, LONGEST};
use crate::locator::{Binding, Update, Updated, Wish};
use crate::sources::Source;
use crate::wire::message::{Request, address};
use crate::wire::udp::Net;

/// The lifetime of a binding if the client does not give one.
const USUAL: Duration = Duration::from_secs(3600);

/// The longest name of a user, and the longest URI of a contact. The router keeps both as long as the binding.
const LONGEST_USER: usize = 256;
const LONGEST_URI: usize = 512;

/// The phases of a registration.
#[fom(operation(Registration), transient)]
pub enum Step {
    /// Reads what the client wishes.
    #[phase(start, sync, to(Bind, Refused))]
    Read,
    /// Changes the user's bindings and commits the change.
    #[phase(to(Bound, Refused), within = "2s", late)]
    Bind {
        /// What the client wishes.
        update: Update,
    },
    /// Done: the client got all its bindings.
    #[phase(end)]
    Bound,
    /// Not done: the client got the reason.
    #[phase(end, failure)]
    Refused {
        /// The status of the answer.
        status: u16,
    },
}

/// One REGISTER.
#[derive(Debug)]
pub struct Registration {
    net: Net,
    source: Source,
    request: Box<Request>,
    shortest: Duration,
}

impl Registration {
    /// Serves `request` of `source`. The router refuses bindings that are shorter than `shortest`, to limit how often a
    /// client registers.
    pub fn new(
        net: Net,
        source: Source,
        request: Box<Request>,
        shortest: Duration,
    ) -> Registration {
        Registration {
            net,
            source,
            request,
            shortest,
        }
    }

    /// The request, so that the router can answer it if the fom could not begin.
    pub fn request(&self) -> &Request {
        &self.request
    }

    fn refuse(&self, status: u16, more: &str) -> u16 {
        self.answer(status, more);
        status
    }

    fn answer(&self, status: u16, more: &str) {
        self.net.send(
            &self.request.answer(status, &self.net.tag(), more),
            self.request.reply_to,
        );
    }

    /// Tells the client the result of its wishes. An error is the status of a refusal.
    pub(crate) fn updated(&self, updated: Updated) -> Result<(), u16> {
        match updated {
            Updated::Bindings(bindings) => {
                self.net.counters().registered.add();
                self.answer(200, &contacts(&bindings));
                Ok(())
            }
            Updated::OutOfOrder => Err(self.refuse(500, "")),
            Updated::Full => Err(self.refuse(503, "Retry-After: 30\r\n")),
        }
    }

    /// Tells the client what is wrong with its wishes.
    pub(crate) fn refuse_wishes(&self, status: u16) -> u16 {
        let least = format!("Min-Expires: {}\r\n", self.shortest.as_secs());
        self.refuse(status, if status == 423 { &least } else { "" })
    }

    /// Returns what the client wishes, or the status of the refusal.
    pub(crate) fn wishes(&self) -> Result<Update, u16> {
        let headers = &self.request.sip.headers;
        let to = self
            .request
            .sip
            .to_header()
            .and_then(|to| to.uri())
            .map_err(|_| 400_u16)?;
        let user = to
            .user()
            .filter(|user| (1..=LONGEST_USER).contains(&user.len()))
            .ok_or(400_u16)?
            .to_owned();
        let usual = match self.request.sip.expires_header() {
            Some(expires) => seconds(expires.value()).ok_or(400_u16)?,
            None => USUAL,
        };
        let (call_id, cseq) = (self.request.call_id.clone(), self.request.cseq);
        let mut update = Update {
            source: self.source,
            user,
            call_id,
            cseq,
            clear: false,
            wishes: Vec::new(),
        };
        for header in headers.iter() {
            let Header::Contact(contact) = header else {
                continue;
            };
            if contact.value().trim() == "*" {
                if !usual.is_zero() {
                    return Err(400); // 10.3 step 6
                }
                update.clear = true;
                continue;
            }
            let contacts =
                sip::typed::Contact::parse_header_list(contact.value()).map_err(|_| 400_u16)?;
            for contact in contacts {
                let expires = contact
                    .expires()
                    .map_or(usual, |seconds| Duration::from_secs(seconds.into()));
                if !expires.is_zero() && expires < self.shortest {
                    return Err(423);
                }
                // The router resolves no names: a contact must name an address.
                let address = address(&contact.uri).ok_or(400_u16)?;
                if contact.uri.to_string().len() > LONGEST_URI {
                    return Err(400);
                }
                let binding = Binding {
                    uri: contact.uri,
                    address,
                };
                update.wishes.push(Wish {
                    binding,
                    expires: expires.min(LONGEST),
                });
            }
        }
        if update.clear && !update.wishes.is_empty() {
            return Err(400);
        }
        Ok(update)
    }
}

impl StepTransitions for Registration {
    fn read(&mut self, _: &mut Cx<'_>) -> Result<StepAfterRead, BoxError> {
        Ok(match self.wishes() {
            Ok(update) => StepAfterRead::Bind { update },
            Err(status) => StepAfterRead::Refused {
                status: self.refuse_wishes(status),
            },
        })
    }

    async fn bind(
        &mut self,
        cx: &mut Cx<'_>,
        update: &mut Update,
    ) -> Result<StepAfterBind, BoxError> {
        let (runtime, update) = (cx.runtime(), update.clone());
        let updated = cx
            .call(|net: &Net, reply| bindings::change(&runtime, net, update, reply))
            .await;
        let told = match updated {
            Ok(updated) => self.updated(updated),
            // No answer: the bindings could not be kept, or the locator did not answer.
            Err(_) => Err(self.refuse(503, "Retry-After: 5\r\n")),
        };
        Ok(match told {
            Ok(()) => StepAfterBind::Bound,
            Err(status) => StepAfterBind::Refused { status },
        })
    }

    async fn bind_late(
        &mut self,
        _: &mut Cx<'_>,
        _: &mut Update,
    ) -> Result<StepAfterBind, BoxError> {
        Ok(StepAfterBind::Refused {
            status: self.refuse(504, ""),
        })
    }
}

fn seconds(text: &str) -> Option<Duration> {
    text.trim()
        .parse::<u32>()
        .ok()
        .map(|seconds| Duration::from_secs(seconds.into()))
}

/// Writes all the user's bindings, with the time that each has left (10.3 step 8).
fn contacts(bindings: &[(Binding, Duration)]) -> String {
    let mut text = String::new();
    for (binding, left) in bindings {
        let _ = write!(
            text,
            "Contact: <{}>;expires={}\r\n",
            binding.uri,
            left.as_secs()
        );
    }
    text
}
