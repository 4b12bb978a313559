//! The command `fom` as a user runs it, against programs that run in these tests.

mod actions;
mod away;
mod commands;
mod hostile;
mod kit;
mod stuck;
