//! The server, seen from outside: what clients rely on.

mod bed;
mod blocking;
mod commands;
mod hostile;
mod linear;
mod protocol;
mod rate;
mod saved;
mod transactions;
