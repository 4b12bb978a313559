//! The seam for a simulation, in which real threads take turns and time is virtual.
//!
//! A thread of a simulation has a [`Schedule`]. Wherever the thread would block, [`sync`](crate::sync) asks the schedule
//! instead. Other threads have none, and look for one only where they block or wake a thread.

use std::{
    any::Any,
    cell::RefCell,
    io,
    sync::{Arc, atomic::AtomicU64},
    thread,
    time::Duration,
};

/// Decides which thread of a simulation runs, and what time it is.
pub trait Schedule: Send + Sync {
    /// Blocks this thread until another one calls [`notify`](Self::notify) with the same number, or until the time is over.
    /// Returns whether the time is over. The number is an address, which no other object has meanwhile.
    fn wait(&self, on: usize, time: Option<Duration>) -> bool;

    /// Lets the threads run that wait for this: all of them, or one.
    fn notify(&self, on: usize, all: bool);

    /// Lets another thread run, or not.
    fn turn(&self);

    /// Returns the time since the simulation began.
    fn now(&self) -> Duration;

    /// Returns the nanoseconds since the simulation began, which go on.
    fn clock(&self) -> Arc<AtomicU64>;

    /// Makes what is built on this thread a part of the simulation. `builder` is a `Builder` of `fom-runtime`.
    fn adopt(&self, builder: &mut dyn Any);

    /// Starts a thread that is a part of the simulation where the calling thread is.
    ///
    /// # Errors
    ///
    /// Fails with the error of the system.
    fn spawn(&self, name: &str, main: Box<dyn FnOnce() + Send>) -> io::Result<()>;
}

thread_local! {
    static SCHEDULE: RefCell<Option<Arc<dyn Schedule>>> = const { RefCell::new(None) };
}

/// Makes this thread a part of a simulation, until the guard is dropped.
pub fn take_part(schedule: Arc<dyn Schedule>) -> Part {
    SCHEDULE.set(Some(schedule));
    Part(())
}

/// The part of a thread in a simulation.
#[derive(Debug)]
pub struct Part(());

impl Drop for Part {
    fn drop(&mut self) {
        // A thread that ends may have no thread-locals any more.
        let _ = SCHEDULE.try_with(|schedule| schedule.take());
    }
}

/// Returns the schedule of this thread, if it is a part of a simulation.
pub fn schedule() -> Option<Arc<dyn Schedule>> {
    let schedule = SCHEDULE.try_with(|schedule| schedule.borrow().clone());
    schedule.ok().flatten()
}

/// Starts a thread. In a simulation, it is a part of it.
///
/// # Errors
///
/// Fails with the error of the system.
pub fn spawn(name: &str, main: impl FnOnce() + Send + 'static) -> io::Result<()> {
    match schedule() {
        Some(schedule) => schedule.spawn(name, Box::new(main)),
        None => {
            let thread = thread::Builder::new().name(name.to_owned());
            thread.spawn(main).map(drop)
        }
    }
}

/// Returns the number by which a simulation knows an object that a thread may wait for.
pub fn address<T>(object: &T) -> usize {
    std::ptr::from_ref(object).addr()
}

/// Lets the threads of the simulation run that wait for this: all of them, or one.
pub fn notify(on: usize, all: bool) {
    if let Some(schedule) = schedule() {
        schedule.notify(on, all);
    }
}
