//! Tasks of the peers. They wait for a `oneshot` per call, or (`slot`) for one cell that serves all three calls.

use std::{
    future::{Future, poll_fn},
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
};

use futures_util::task::AtomicWaker;
use kit::peers;
use tokio::sync::oneshot;

use crate::{
    CALLS, Load,
    service::{Answer, Reply, Request, Service, service},
};

/// A way to call.
trait Calls: Send + Sync + 'static {
    type Reply: Reply;
    fn new() -> Self;
    fn call(&self, x: u64, service: &Service<Self::Reply>) -> impl Future<Output = Answer> + Send;
}

/// A channel for each call.
struct Oneshot;

impl Calls for Oneshot {
    type Reply = oneshot::Sender<Answer>;

    fn new() -> Self {
        Self
    }

    async fn call(&self, x: u64, service: &Service<Self::Reply>) -> Answer {
        let (to, answer) = oneshot::channel();
        service.send(Request { x, to }).expect("the service runs");
        answer.await.expect("every request is answered")
    }
}

/// One cell for all calls of an operation: the best handwritten way.
#[derive(Default)]
struct Cell {
    waker: AtomicWaker,
    /// The time of the answer plus one; 0 before the answer.
    given: AtomicU64,
    x: AtomicU64,
}

struct Slot(Arc<Cell>);

impl Reply for Arc<Cell> {
    fn reply(self, answer: Answer) {
        self.x.store(answer.x, Ordering::Relaxed);
        self.given.store(answer.given + 1, Ordering::Release);
        self.waker.wake();
    }
}

impl Calls for Slot {
    type Reply = Arc<Cell>;

    fn new() -> Self {
        Self(Arc::default())
    }

    async fn call(&self, x: u64, service: &Service<Self::Reply>) -> Answer {
        let to = Arc::clone(&self.0);
        service.send(Request { x, to }).expect("the service runs");
        poll_fn(|cx| {
            let take = || match self.0.given.load(Ordering::Acquire) {
                0 => None,
                given => {
                    self.0.given.store(0, Ordering::Relaxed);
                    Some(Answer {
                        x: self.0.x.load(Ordering::Relaxed),
                        given: given - 1,
                    })
                }
            };
            if let Some(answer) = take() {
                return Poll::Ready(answer);
            }
            self.0.waker.register(cx.waker());
            take().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// One operation.
async fn op<C: Calls>(mut x: u64, load: Load, service: &Service<C::Reply>) -> u64 {
    let calls = C::new();
    for _ in 0..CALLS {
        x = calls.call(x, service).await.arrived(load.wakes);
    }
    x
}

/// Counts an operation that ended. There is one worker, so no other thread writes.
fn ended(load: Load) {
    load.ended.add_alone();
}

pub(crate) fn start(load: Load, peer: &str) {
    match peer {
        "tokio-mt" => tokio_mt::<Oneshot>(load),
        "tokio-mt:slot" => tokio_mt::<Slot>(load),
        "tokio-ct" => tokio_ct::<Oneshot>(load),
        "tokio-ct:slot" => tokio_ct::<Slot>(load),
        "tokio-ct:local" => tokio_local::<Oneshot>(load),
        "tokio-ct:local-slot" => tokio_local::<Slot>(load),
        "smol" => smol::<Oneshot>(load),
        "smol:slot" => smol::<Slot>(load),
        "smol:local-slot" => smol_local::<Slot>(load),
        "glommio" => glommio::<Oneshot>(load),
        "glommio:slot" => glommio::<Slot>(load),
        "monoio" => monoio::<Oneshot>(load),
        "monoio:slot" => monoio::<Slot>(load),
        _ => panic!("no such peer: {peer}"),
    }
}

/// Starts the service, forever.
fn forever<C: Calls>() -> &'static Service<C::Reply> {
    Box::leak(Box::new(service()))
}

/// Runs an operation on tokio. It starts the next one when it ends.
fn on_tokio<C: Calls>(x: u64, load: Load, service: &'static Service<C::Reply>) {
    // The future is boxed under a named type, since it cannot hold its own type.
    #[expect(
        clippy::manual_async_fn,
        reason = "that it is `Send` cannot be inferred from itself"
    )]
    fn next<C: Calls>(
        x: u64,
        load: Load,
        service: &'static Service<C::Reply>,
    ) -> impl Future<Output = ()> + Send {
        async move {
            let x = op::<C>(x, load, service).await;
            ended(load);
            on_tokio::<C>(x, load, service);
        }
    }
    tokio::spawn(next::<C>(x, load, service));
}

fn tokio_mt<C: Calls>(load: Load) {
    let service = forever::<C>();
    peers::tokio_mt(1, move |_| async move {
        (0..load.flying as u64).for_each(|x| on_tokio::<C>(x, load, service));
    });
}

fn tokio_ct<C: Calls>(load: Load) {
    let service = forever::<C>();
    peers::tokio_ct(1, move |_| async move {
        (0..load.flying as u64).for_each(|x| on_tokio::<C>(x, load, service));
        std::future::pending().await
    });
}

fn tokio_local<C: Calls>(load: Load) {
    fn start<C: Calls>(x: u64, load: Load, service: &'static Service<C::Reply>) {
        tokio::task::spawn_local(async move {
            let x = op::<C>(x, load, service).await;
            ended(load);
            start::<C>(x, load, service);
        });
    }
    let service = forever::<C>();
    peers::tokio_local(1, move |_| async move {
        (0..load.flying as u64).for_each(|x| start::<C>(x, load, service));
        std::future::pending().await
    });
}

fn smol<C: Calls>(load: Load) {
    type Executor = &'static async_executor::Executor<'static>;
    fn start<C: Calls>(x: u64, load: Load, service: &'static Service<C::Reply>, on: Executor) {
        #[expect(
            clippy::manual_async_fn,
            reason = "that it is `Send` cannot be inferred from itself"
        )]
        fn next<C: Calls>(
            x: u64,
            load: Load,
            service: &'static Service<C::Reply>,
            on: Executor,
        ) -> impl Future<Output = ()> + Send {
            async move {
                let x = op::<C>(x, load, service).await;
                ended(load);
                start::<C>(x, load, service, on);
            }
        }
        on.spawn(next::<C>(x, load, service, on)).detach();
    }
    let service = forever::<C>();
    peers::smol(1, move |_, on| async move {
        (0..load.flying as u64).for_each(|x| start::<C>(x, load, service, on));
    });
}

fn smol_local<C: Calls>(load: Load) {
    type Executor = &'static async_executor::LocalExecutor<'static>;
    fn start<C: Calls>(x: u64, load: Load, service: &'static Service<C::Reply>, on: Executor) {
        let task = on.spawn(async move {
            let x = op::<C>(x, load, service).await;
            ended(load);
            start::<C>(x, load, service, on);
        });
        task.detach();
    }
    let service = forever::<C>();
    peers::smol_local(1, move |_, on| async move {
        (0..load.flying as u64).for_each(|x| start::<C>(x, load, service, on));
        std::future::pending().await
    });
}

fn glommio<C: Calls>(load: Load) {
    fn start<C: Calls>(x: u64, load: Load, service: &'static Service<C::Reply>) {
        let task = glommio::spawn_local(async move {
            let x = op::<C>(x, load, service).await;
            ended(load);
            start::<C>(x, load, service);
        });
        task.detach();
    }
    let service = forever::<C>();
    peers::glommio(1, move |_| async move {
        (0..load.flying as u64).for_each(|x| start::<C>(x, load, service));
        std::future::pending().await
    });
}

fn monoio<C: Calls>(load: Load) {
    fn start<C: Calls>(x: u64, load: Load, service: &'static Service<C::Reply>) {
        monoio::spawn(async move {
            let x = op::<C>(x, load, service).await;
            ended(load);
            start::<C>(black_box(x), load, service);
        });
    }
    let service = forever::<C>();
    peers::monoio(1, move |_| async move {
        (0..load.flying as u64).for_each(|x| start::<C>(x, load, service));
        std::future::pending().await
    });
}
