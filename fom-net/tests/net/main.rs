//! Servers over real sockets of this machine.

mod kit;
mod tcp;
mod udp;
