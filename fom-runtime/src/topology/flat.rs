//! The fallback where nothing describes the machine: a number of processors.

use std::thread::available_parallelism;

use super::{Cpu, Machine, Source, bind};

pub(super) fn machine(cpus: &[usize]) -> Machine {
    let cpus = cpus.iter().map(|&id| Cpu::new(id)).collect();
    Machine::assemble(cpus, Source::Flat, cfg!(target_os = "linux"))
}

/// Returns as many processors as the standard library counts, numbered from 0.
pub(super) fn counted() -> Vec<usize> {
    (0..available_parallelism().map_or(1, Into::into)).collect()
}

/// Returns the number of processors that a cgroup pays for, if that is less than the current thread may
/// use. The standard library knows both numbers, but returns only the smaller.
pub(super) fn quota() -> Option<usize> {
    let allowed = bind::current_thread_cpus().ok()?.len();
    let counted = available_parallelism().ok()?.into();
    (counted < allowed).then_some(counted)
}
