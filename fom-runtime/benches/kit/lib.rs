//! Code that the questions share: rounds of processes, figures, ratios, and the table at the end.
//!
//! A question is a program with a [`Question`] and [`ask`] in its `main`. It runs every peer of every case in a process
//! of its own, so that none disturbs another. A round runs each peer once, in rotated order. Ratios are taken within a
//! round, and the table shows their median.

mod answer;
mod args;
mod disk;
mod figures;
mod histogram;
mod inbox;
mod machine;
mod question;
mod rounds;
mod row;
mod settle;
mod spent;
mod table;
mod work;

pub use answer::{Answer, Best, short};
pub use disk::{folder, forget_files, read_bytes, remove, size_of_files, written_bytes};
pub use figures::{Figures, Record};
pub use histogram::{Histogram, now};
pub use inbox::{Inbox, Node, Taken};
pub use machine::{context_switches, cores, cpu_time, pin, resident_bytes};
pub use question::{Case, One, Question, ask};
pub use rounds::{Round, Rounds, family};
pub use row::{Better, Row, Target};
pub use settle::settle;
pub use spent::{Spent, Tally, measure, percentile};
pub use table::{details, table};
pub use work::mix;

pub mod peers;
