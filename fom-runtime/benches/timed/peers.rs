//! Tasks of the peers. They wait for a `kit::peers::Bell`, the leanest way, or for a oneshot channel, the usual one.

use std::{future::Future, time::Duration};

use futures_lite::FutureExt;
use kit::peers::{Bell, Heard, glommio, monoio, self_wake, smol_io, tokio_ct, tokio_mt};
use tokio::sync::oneshot;

use super::{BATCH, Ended, State, Timed, WORKERS};

const HOUR: Duration = Duration::from_secs(3600);

/// What a task waits for.
trait Event: Copy + Send + Sync + 'static {
    type Wait: Future + Send + 'static;
    type Sender: Send + 'static;

    /// Makes the event for the operation with this number.
    fn make(&self, number: usize) -> (Self::Sender, Self::Wait);
    fn send(sender: Self::Sender);
}

#[derive(Clone, Copy)]
struct Bells(&'static [Bell]);

impl Event for Bells {
    type Wait = Heard;
    type Sender = &'static Bell;

    fn make(&self, number: usize) -> (&'static Bell, Heard) {
        (&self.0[number], self.0[number].heard())
    }

    fn send(bell: &'static Bell) {
        bell.ring(1);
    }
}

#[derive(Clone, Copy)]
struct Oneshots;

impl Event for Oneshots {
    type Wait = oneshot::Receiver<()>;
    type Sender = oneshot::Sender<()>;

    fn make(&self, _: usize) -> (Self::Sender, Self::Wait) {
        oneshot::channel()
    }

    fn send(sender: Self::Sender) {
        assert!(sender.send(()).is_ok(), "the task waits");
    }
}

struct Tasks {
    /// The bells of the workers' generators, rung first to park, then to wake.
    generators: &'static [Bell],
}

impl Timed for Tasks {
    fn park(&mut self) {
        self.generators
            .iter()
            .for_each(|generator| generator.ring(1));
    }

    fn wake(&mut self) {
        self.generators
            .iter()
            .for_each(|generator| generator.ring(1));
    }

    fn ended(&self) -> u64 {
        Ended::all()
    }
}

pub(super) fn start(peer: &str, operations: usize) -> Option<Box<dyn Timed>> {
    match peer {
        "tokio-mt:oneshot" => start_with("tokio-mt", operations, Oneshots),
        "tokio-ct:oneshot" => start_with("tokio-ct", operations, Oneshots),
        _ => start_with(peer, operations, Bells(Bell::some(operations))),
    }
}

fn start_with<E: Event>(peer: &str, operations: usize, event: E) -> Option<Box<dyn Timed>> {
    let generators = Bell::some(WORKERS);
    let generator = move |n: usize| Generator {
        operations,
        n,
        go: &generators[n],
        event,
    };
    match peer {
        "tokio-mt" => {
            tokio_mt(WORKERS, |n| {
                generator(n).run(by_tokio, |task| drop(tokio::spawn(task)))
            });
        }
        "tokio-ct" => {
            tokio_ct(WORKERS, move |n| {
                generator(n).run(by_tokio, |task| drop(tokio::spawn(task)))
            });
        }
        "smol" => {
            smol_io(WORKERS, |n, smol| {
                generator(n).run(by_smol, |task| smol.spawn(task).detach())
            });
        }
        "glommio" => {
            let spawn = |task| drop(::glommio::spawn_local(task).detach());
            glommio(WORKERS, move |n| generator(n).run(by_glommio, spawn));
        }
        "monoio" => {
            monoio(WORKERS, move |n| {
                generator(n).run(by_monoio, |task| drop(::monoio::spawn(task)))
            });
        }
        _ => return None,
    }
    Some(Box::new(Tasks { generators }))
}

/// The content of a task.
struct Task<W> {
    state: State,
    wait: W,
}

async fn by_tokio<W: Future>(task: Task<W>) {
    // No task here waits for an hour.
    let _ = tokio::time::timeout(HOUR, task.wait).await;
    Ended::one(&task.state);
}

async fn by_smol<W: Future>(task: Task<W>) {
    let Task { state, wait } = task;
    let late = async {
        async_io::Timer::after(HOUR).await;
        None
    };
    async { Some(wait.await) }.or(late).await;
    Ended::one(&state);
}

async fn by_glommio<W: Future>(task: Task<W>) {
    let Task { state, wait } = task;
    let _ = ::glommio::timer::timeout(HOUR, async {
        Ok::<_, ::glommio::GlommioError<()>>(wait.await)
    })
    .await;
    Ended::one(&state);
}

async fn by_monoio<W: Future>(task: Task<W>) {
    let _ = ::monoio::time::timeout(HOUR, task.wait).await;
    Ended::one(&task.state);
}

struct Generator<E> {
    operations: usize,
    n: usize,
    go: &'static Bell,
    event: E,
}

impl<E: Event> Generator<E> {
    /// Does two moves: spawns this worker's part, and wakes it.
    async fn run<F>(self, task: impl Fn(Task<E::Wait>) -> F, spawn: impl Fn(F)) {
        self.go.heard().await;
        let mut senders = Vec::with_capacity(self.operations.div_ceil(WORKERS));
        for number in (self.n..self.operations).step_by(WORKERS) {
            let (sender, wait) = self.event.make(number);
            spawn(task(Task {
                state: State::new(number),
                wait,
            }));
            senders.push(sender);
            if senders.len() % BATCH == 0 {
                self_wake().await;
            }
        }
        self.go.heard().await;
        for (n, sender) in senders.into_iter().enumerate() {
            E::send(sender);
            if n % BATCH == BATCH - 1 {
                self_wake().await;
            }
        }
        std::future::pending().await
    }
}
