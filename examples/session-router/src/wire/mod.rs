//! What goes over the wire: messages, and the socket that carries them.

pub(crate) mod kernel;
pub mod message;
pub mod parse;
pub(crate) mod saved;
pub mod udp;
