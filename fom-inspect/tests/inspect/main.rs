//! The inspector, as its clients use it: raw bytes over real sockets.

mod access;
mod actions;
mod data;
mod family;
mod hostile;
mod kit;
mod life;
mod metrics;
mod resources;
mod stream;
