//! What the tests of bugs share.

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
};

use fom_sim::{self as sim, Sim};

/// Returns what is told of the bug. It has at most this many choices that are not 0.
pub(crate) fn found(plain: usize, program: impl Fn(&mut Sim) + Send + Sync + 'static) -> String {
    let explored = catch_unwind(AssertUnwindSafe(|| sim::explore(SEEDS, program)));
    let told = explored.expect_err("the bug is found");
    let told = told.downcast::<String>().expect("a text");
    let choices = told.lines().find(|line| line.contains(" of them not 0: "));
    let choices = choices.expect("the choices").split('[').nth(1).unwrap();
    let set = choices
        .trim_end_matches(']')
        .split(", ")
        .filter(|n| !n.is_empty() && *n != "0");
    assert!(set.count() <= plain, "{told}");
    *told
}

const SEEDS: Range<u64> = 0..2_000;
