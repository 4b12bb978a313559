//! The server: connections, access, paths, answers.

mod access;
mod answer;
mod assets;
mod body;
mod connection;
mod guard;
mod handler;
mod listen;
mod work;

pub(crate) use access::Access;
pub(crate) use connection::serve;
pub(crate) use handler::Handler;
pub(crate) use listen::Listening;
pub(crate) use work::THREADS;
