//! The server, seen from outside: what clients rely on.

mod bed;
mod blocking;
mod commands;
mod hostile;
mod linear;
mod memory;
mod protocol;
mod rate;
mod resp3;
mod saved;
mod scripts;
mod serving;
mod transactions;
