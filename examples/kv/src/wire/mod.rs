//! The Redis protocol (RESP2 and RESP3): reads requests from bytes, and writes replies into bytes.

mod inline;
mod reader;
mod reply;
mod request;

pub(crate) use reader::integer;
pub use reader::{Limits, Malformed, Reader};
pub use reply::{Protocol, Reply};
pub use request::Request;
