//! Counts the instructions of fom's hot paths with callgrind, beside the least possible count.
//!
//! Times on a shared machine differ by 15 % from hour to hour; these counts differ by less than 0.5 %. So paths that
//! must not become slower unnoticed are counted here, and `.ci/run` compares the counts with `../instructions.txt`.

mod baseline;
mod callgrind;
mod clock;
mod generator;
mod limit;
mod machines;
mod measures;
mod programs;
mod steps;
mod tokio_peer;

pub use baseline::{compare, write};
pub use measures::{Counted, Counter, MEASURES, Measure, Side};

/// Runs a program if this process was started to be counted (`run NAME TIMES`), and does not return then. Call it first
/// in `main`: [`Counter`] starts the executable that it is called in.
pub fn run_if_counted() {
    let args: Vec<String> = std::env::args().collect();
    if let [_, run, name, times] = &*args
        && run == "run"
    {
        match times.parse() {
            Ok(times) => programs::run(name, times),
            Err(_) => {
                eprintln!("`{times}` is no number");
                std::process::exit(2);
            }
        }
    }
}
