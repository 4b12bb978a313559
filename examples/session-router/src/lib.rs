//! A SIP session router over UDP (RFC 3261). All its stateful parts are foms.
//!
//! - [`wire`]: what goes over the wire. A crate reads the messages; the router catches a stranger's mistakes before it
//!   keeps anything.
//! - [`call`]: a call, from the first INVITE to the last straggler. **Start reading here.**
//! - [`registrar`]: a REGISTER, and [`bindings`]: what the router keeps of it.
//! - [`locator`]: where users are. It is not a fom but a component that foms ask.
//! - [`router`]: starts and ends the router; `front` passes each datagram to its fom.
//! - [`sources`]: how fast each source may send; [`places`]: how much each may hold at a time.
//! - [`cdr`], [`counters`], [`report`]: records, counts and tables of calls.
//! - [`selfrun`]: two endpoints and a caller, to try the router.
//! - [`twin`]: the same router without fom, for comparison.

//!
//! # What differs from RFC 3261
//!
//! - Only UDP, and only addresses: the router looks up no names (RFC 3263), so a Contact must name a number.
//! - The router asks for no password: any client that can send to the router can register.
//! - Requests outside a dialog are INVITE, REGISTER, and OPTIONS to the router itself. Others get 405, and methods that
//!   the parser does not know get 501. Inside a dialog the router forwards every method that the parser knows.
//! - A request inside a dialog goes to the address from which the other side's packets came, or to which they went.
//!   The router ignores its Route and its Request-URI. So the router does not follow route sets of further proxies.
//! - A 3xx goes to the caller, and the router does not follow it (16.7 step 4 leaves that open). All bindings ring at
//!   once, and `q` is ignored. A fixed endpoint that does not answer is not replaced by the next.
//! - The router answers a CANCEL of an INVITE inside a dialog, and the INVITE takes its course.
//! - The router drops responses and ACKs that belong to no call (RFC 6026 says so of responses).

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
