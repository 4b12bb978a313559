//! The place where a handler sleeps: a tokio current-thread runtime that the handler drives. So the thread that serves
//! sockets and timers also runs the foms that wait for them (Leader/Followers: the handler is the leader).

#[cfg(not(fom_shuttle))]
mod real {
    use std::{
        future::poll_fn,
        io,
        task::Poll,
        time::{Duration, Instant},
    };

    use atomic_waker::AtomicWaker;
    use tokio::runtime::{Builder, EnterGuard, Handle, Runtime};

    use crate::{fom::hand::context::holding, locality::Home};
    use fom_protocol::schedule::{Schedule, address, notify, schedule};

    /// `None` only during `drop`.
    pub(crate) struct Reactor(Option<Runtime>);

    /// Lets a thread create tokio's sockets, timers and tasks in the locality's reactor.
    pub(crate) struct Entrance(Handle);

    /// Ends the sleep of the handler.
    #[derive(Default)]
    pub(crate) struct Alarm(AtomicWaker);

    impl Alarm {
        pub(crate) fn ring(&self) {
            notify(address(self), true);
            self.0.wake();
        }
    }

    impl Entrance {
        pub(crate) fn enter(&self) -> EnterGuard<'_> {
            self.0.enter()
        }
    }

    impl Reactor {
        pub(crate) fn new() -> io::Result<Self> {
            Builder::new_current_thread()
                .enable_all()
                .build()
                .map(|runtime| Self(Some(runtime)))
        }

        fn runtime(&self) -> &Runtime {
            self.0.as_ref().expect("taken only in `drop`")
        }

        pub(crate) fn entrance(&self) -> Entrance {
            Entrance(self.runtime().handle().clone())
        }

        /// Returns whether a task spawned on this reactor has not ended.
        pub(crate) fn has_tasks(&self) -> bool {
            self.runtime().metrics().num_alive_tasks() > 0
        }

        /// Serves what is ready, without waiting.
        pub(crate) fn turn(&self) {
            holding(|| self.runtime().block_on(tokio::task::yield_now()));
        }

        /// Sleeps until something is put into the locality's inbox, or for this time. Serves sockets meanwhile. Returns
        /// `false` if the inbox already held something, and no socket was served.
        pub(crate) fn park(&self, home: &Home, time: Option<Duration>) -> bool {
            if let Some(schedule) = schedule() {
                return self.park_in(&*schedule, home, time);
            }
            if home.localities().spin > 0 && spin(home, time) {
                return false;
            }
            let sleep = async {
                let timer = time.map(tokio::time::sleep);
                let mut timer = std::pin::pin!(timer);
                let mut slept = false;
                poll_fn(|cx| {
                    // Registered at each poll: a ring takes the waker away, and may be meant for the sleep before this
                    // one. First the waker, then the mark: a thread that sees the mark finds the waker.
                    home.alarm.0.register(cx.waker());
                    if !slept {
                        slept = home.inbox.sleep();
                        if !slept {
                            return Poll::Ready(());
                        }
                    } else if !home.inbox.is_asleep() {
                        return Poll::Ready(());
                    }
                    match timer.as_mut().as_pin_mut() {
                        Some(timer) => timer.poll(cx),
                        None => Poll::Pending,
                    }
                })
                .await;
                slept
            };
            holding(|| self.runtime().block_on(sleep))
        }
    }

    impl Reactor {
        /// As [`park`](Self::park), in a simulation.
        #[cold]
        fn park_in(&self, schedule: &dyn Schedule, home: &Home, time: Option<Duration>) -> bool {
            self.turn();
            if !home.inbox.sleep() {
                return false;
            }
            let by = time.map(|time| schedule.now() + time);
            while home.inbox.is_asleep() {
                let left = by.map(|by| by.saturating_sub(schedule.now()));
                if schedule.wait(address(&home.alarm), left) {
                    break;
                }
                self.turn();
            }
            true
        }
    }

    /// Looks for work for a while. Returns whether there was some.
    #[cold]
    fn spin(home: &Home, time: Option<Duration>) -> bool {
        let most = Duration::from_nanos(home.localities().spin);
        let begun = Instant::now();
        while begun.elapsed() < time.map_or(most, |time| time.min(most)) {
            // Several looks at the inbox for each look at the clock.
            for _ in 0..16 {
                if home.inbox.has_mail() {
                    return true;
                }
                std::hint::spin_loop();
            }
        }
        false
    }

    impl Drop for Reactor {
        /// Ends without waiting for spawned tasks. The drop may run in async code, where waiting is not allowed.
        fn drop(&mut self) {
            if let Some(runtime) = self.0.take() {
                runtime.shutdown_background();
            }
        }
    }
}

#[cfg(not(fom_shuttle))]
pub(crate) use real::*;

/// The reactor for shuttle, which has no sockets: a flag and a condition variable.
#[cfg(fom_shuttle)]
mod model {
    use std::{io, time::Duration};

    use crate::locality::Home;
    use fom_protocol::sync::{Condvar, Mutex};

    pub(crate) struct Reactor;

    pub(crate) struct Entrance;

    #[derive(Default)]
    pub(crate) struct Alarm {
        rung: Mutex<bool>,
        bell: Condvar,
    }

    impl Alarm {
        pub(crate) fn ring(&self) {
            *self.rung.lock() = true;
            self.bell.notify_one();
        }
    }

    impl Entrance {
        pub(crate) fn enter(&self) {}
    }

    impl Reactor {
        pub(crate) fn new() -> io::Result<Self> {
            Ok(Self)
        }

        pub(crate) fn entrance(&self) -> Entrance {
            Entrance
        }

        pub(crate) fn has_tasks(&self) -> bool {
            false
        }

        pub(crate) fn turn(&self) {}

        pub(crate) fn park(&self, home: &Home, _: Option<Duration>) -> bool {
            *home.alarm.rung.lock() = false;
            if !home.inbox.sleep() {
                return false;
            }
            let mut rung = home.alarm.rung.lock();
            while home.inbox.is_asleep() && !*rung {
                rung = home.alarm.bell.wait(rung);
            }
            true
        }
    }
}

#[cfg(fom_shuttle)]
pub(crate) use model::*;

#[cfg(all(test, not(fom_shuttle)))]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use crate::{locality::with_core, prelude::*};

    struct Where(mpsc::Sender<crate::locality::Home>);

    #[fom(operation(Where), transient)]
    enum Asked {
        #[phase(start, to(Said), sync)]
        Ask,
        #[phase(end)]
        Said,
    }

    impl AskedTransitions for Where {
        fn ask(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
            let home = with_core(|core| core.home.clone()).ok_or("no core")?;
            Ok(self.0.send(home)?)
        }
    }

    /// A pusher may be held up before it rings. The handler may have woken up by itself since, and sleep again.
    #[test]
    fn a_late_ring_does_not_make_the_next_one_unheard() {
        let runtime = Runtime::builder().localities(1).build().unwrap();
        let (tell, told) = mpsc::channel();
        runtime.submit(Where(tell)).start().unwrap().wait().unwrap();
        let home = told.recv().unwrap();
        // A task beside the sleep, on the thread that sleeps. Between two yields of the task the sleep is polled.
        let (heard, was_heard) = mpsc::channel();
        let entered = home.reactor.enter();
        let late = home.clone();
        tokio::spawn(async move {
            while !late.inbox.is_asleep() {
                tokio::task::yield_now().await;
            }
            late.alarm.ring();
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            heard.send(late.inbox.is_asleep()).unwrap();
        });
        drop(entered);
        // Waits for the task: a spawn on a sleeping reactor wakes it.
        assert!(was_heard.recv_timeout(Duration::from_secs(5)).unwrap());
        let (tell, told) = mpsc::channel();
        home.post_job(Box::new(move |_| tell.send(()).unwrap()));
        told.recv_timeout(Duration::from_secs(5))
            .expect("the handler was rung a second time");
    }
}
