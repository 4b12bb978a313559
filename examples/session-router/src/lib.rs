//! A SIP session router over UDP (RFC 3261) whose stateful parts are all foms.
//!
//! - [`wire`]: what goes over the wire. Messages are read by a crate made for that; what a stranger can do
//!   wrong is caught before anything is kept.
//! - [`call`]: a call, from the first INVITE to the last straggler. **Start reading here.**
//! - [`registrar`]: a REGISTER.
//! - [`locator`]: where users are. It is no fom but a component that foms ask.
//! - [`router`]: brings each datagram to its fom.
//! - [`cdr`], [`counters`], [`report`]: what remains of it.
//! - [`selfrun`]: two endpoints and a caller, to try it.

pub mod call;
pub mod cdr;
pub mod cli;
pub mod counters;
pub mod locator;
pub mod registrar;
pub mod report;
pub mod router;
pub mod selfrun;
pub mod wire;
