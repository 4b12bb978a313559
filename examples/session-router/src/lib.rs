//! A SIP session router over UDP (RFC 3261) whose stateful parts are all foms.
//!
//! - [`wire`]: what goes over the wire. Messages are read by a crate made for that; what a stranger can do
//!   wrong is caught before anything is kept.
//! - [`call`]: a call, from the first INVITE to the last straggler. **Start reading here.**
//! - [`registrar`]: a REGISTER, and [`bindings`]: what is remembered of it.
//! - [`locator`]: where users are. It is no fom but a component that foms ask.
//! - [`router`]: starts and ends it; `front` brings each datagram to its fom.
//! - [`sources`]: how fast each source may send; [`places`]: how much each may hold at a time.
//! - [`cdr`], [`counters`], [`report`]: what remains of it.
//! - [`selfrun`]: two endpoints and a caller, to try it.
//! - [`twin`]: the same router without fom, to compare.

//!
//! # What differs from RFC 3261
//!
//! - Only UDP, and only addresses: no names are looked up (RFC 3263), so a Contact must say a number.
//! - Nobody is asked for a password: whoever can send to the router can register.
//! - Requests outside a dialog are INVITE, REGISTER, and OPTIONS to the router itself; others get 405, methods that
//!   the parser does not know 501. Inside a dialog everything that it knows is passed on.
//! - What is inside a dialog goes to where the other side's packets come from, or went to, and not to where a
//!   Route or the Request-URI says. Route sets of further proxies are therefore not followed.
//! - A 3xx is passed on to the caller and not followed (16.7 step 4 leaves that open). Bindings ring all at once;
//!   `q` is not looked at, and a fixed endpoint that does not answer is not replaced by the next.
//! - A CANCEL of an INVITE inside a dialog is answered, and the INVITE takes its course.
//! - Responses and ACKs that belong to no call are dropped and not passed on (RFC 6026 says so of responses).

pub mod bindings;
pub mod call;
pub mod cdr;
pub mod cli;
pub mod counters;
pub(crate) mod front;
pub mod locator;
pub mod places;
pub mod registrar;
pub mod report;
pub mod router;
pub mod selfrun;
pub mod sources;
pub mod twin;
pub mod wire;
