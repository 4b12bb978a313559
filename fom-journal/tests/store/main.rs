//! What the store of files keeps, through crashes, disk faults and damaged files.

mod again;
mod closed;
mod conformance;
mod copy;
mod crash;
mod damage;
mod faults;
mod file;
mod kit;
mod missing;
mod place;
mod read_ahead;
mod room;
mod torn;
