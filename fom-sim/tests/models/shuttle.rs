//! What the models use of shuttle, for the threads of a simulation.

pub(super) mod thread {
    use std::{
        convert::Infallible,
        panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
        sync::Arc,
        thread,
        time::Duration,
    };

    use fom_protocol::{
        schedule,
        sync::{Condvar, Mutex, now},
    };

    struct Ended<T> {
        result: Mutex<Option<thread::Result<T>>>,
        told: Condvar,
    }

    /// A thread that ends in the end.
    pub(crate) struct JoinHandle<T>(Arc<Ended<T>>);

    impl<T> JoinHandle<T> {
        /// Waits until the thread has ended. Panics if it has panicked.
        pub(crate) fn join(self) -> Result<T, Infallible> {
            let mut result = self.0.result.lock();
            loop {
                match result.take() {
                    Some(Ok(value)) => return Ok(value),
                    Some(Err(panic)) => {
                        drop(result);
                        resume_unwind(panic)
                    }
                    None => result = self.0.told.wait(result),
                }
            }
        }

        /// Waits until the thread has ended, for this time at most. Returns whether it has. Panics if it has panicked.
        pub(crate) fn ends_within(self, time: Duration) -> bool {
            let result = self.0.result.lock();
            let is_there = |result: &mut Option<_>| result.is_some();
            let (result, ended) = self.0.told.wait_until(result, now() + time, is_there);
            drop(result);
            if ended {
                let Ok(_) = self.join();
            }
            ended
        }
    }

    pub(crate) fn spawn<T: Send + 'static>(
        main: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let ended = Arc::new(Ended {
            result: Mutex::new(None),
            told: Condvar::default(),
        });
        let tells = Arc::clone(&ended);
        let main = move || {
            let result = catch_unwind(AssertUnwindSafe(main));
            *tells.result.lock() = Some(result);
            tells.told.notify_all();
        };
        schedule::spawn("model", main).unwrap();
        JoinHandle(ended)
    }

    pub(crate) fn yield_now() {
        if let Some(schedule) = schedule::schedule() {
            schedule.turn();
        }
    }
}

pub(super) mod sync {
    use std::convert::Infallible;

    use fom_protocol::sync as real;
    pub(crate) use std::sync::atomic;

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(real::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(real::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> Result<real::MutexGuard<'_, T>, Infallible> {
            Ok(self.0.lock())
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct Condvar(real::Condvar);

    impl Condvar {
        pub(crate) fn wait<'a, T>(
            &self,
            guard: real::MutexGuard<'a, T>,
        ) -> Result<real::MutexGuard<'a, T>, Infallible> {
            Ok(self.0.wait(guard))
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

pub(super) mod future {
    pub(crate) use fom_protocol::sync::block_on;
}

pub(super) mod rand {
    use std::ops::Range;

    pub(crate) trait Rng {
        fn gen_bool(&mut self, part: f64) -> bool;
        fn gen_range(&mut self, range: Range<u32>) -> u32;
    }

    pub(crate) struct Seed;

    impl Rng for Seed {
        fn gen_bool(&mut self, part: f64) -> bool {
            f64::from(fom_sim::draw(100)) < 100.0 * part
        }

        fn gen_range(&mut self, range: Range<u32>) -> u32 {
            range.start + fom_sim::draw(range.end - range.start)
        }
    }

    pub(crate) fn thread_rng() -> Seed {
        Seed
    }
}
