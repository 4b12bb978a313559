//! The command `fom` as a user runs it, on journals of a small program.

mod damage;
mod journal;
mod program;
mod secrets;
