//! The built-in policies, except the token buckets.

mod batches;
mod deadline;
mod delay;
mod fifo;
mod line;
mod priorities;
mod rounds;

pub use batches::SortedBatches;
pub use deadline::DeadlineFirst;
pub use delay::Delay;
pub use fifo::Fifo;
pub use line::Line;
pub use priorities::Priorities;
pub use rounds::ClientRoundRobin;
