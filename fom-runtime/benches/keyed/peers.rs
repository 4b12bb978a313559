//! Channels and tasks of the peers.

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    sync::{Arc, Mutex},
};

use kit::{Spent, Tally, peers};
use tokio::sync::mpsc;

use crate::load::{KEYS, Load, PAUSE, Request, WORKERS, shard};

pub(crate) fn serve(load: Load, case: &str, peer: &str) -> Spent {
    let waiting = case == "waiting";
    if peer == "tokio-mt:ondemand" {
        return on_demand(load, waiting);
    }
    let done = Tally::of(64);
    let queues = match peer {
        "tokio-mt:shard" | "tokio-mt:many" | "smol:shard" => WORKERS,
        "tokio-mt:shard64" => 64,
        _ => KEYS,
    };
    let (ways, mut queues): (Vec<_>, Vec<_>) = (0..queues)
        .map(|_| {
            let (send, receive) = mpsc::unbounded_channel();
            (send, Some(receive))
        })
        .unzip();
    let many = peer == "tokio-mt:many";
    let each = queues.iter_mut().enumerate();
    let served = each.map(|(n, queue)| {
        let queue = queue.take().expect("once");
        serve_queue(load, queue, &done[n % 64], many, waiting)
    });
    if peer.starts_with("tokio-mt") {
        let tokio = peers::tokio_mt(WORKERS, |_| async {});
        served.for_each(|task| {
            tokio.spawn(task);
        });
    } else {
        let smol = peers::smol(WORKERS, |_, _| async {});
        served.for_each(|task| smol.spawn(task).detach());
    }
    load.measure(
        || {
            for request in load.requests {
                let n = if ways.len() == KEYS {
                    request.key as usize
                } else {
                    shard(request.key, ways.len())
                };
                ways[n].send(*request).expect("it is read for ever");
            }
        },
        || done.iter().map(Tally::get).sum(),
    )
}

fn serve_queue(
    load: Load,
    mut queue: mpsc::UnboundedReceiver<Request>,
    done: &'static Tally,
    many: bool,
    waiting: bool,
) -> impl Future<Output = ()> + Send {
    async move {
        if many {
            let mut requests = Vec::with_capacity(64);
            while queue.recv_many(&mut requests, 64).await > 0 {
                for request in requests.drain(..) {
                    serve_one(load, request, waiting).await;
                    done.add();
                }
            }
        } else {
            while let Some(request) = queue.recv().await {
                serve_one(load, request, waiting).await;
                done.add();
            }
        }
    }
}

async fn serve_one(load: Load, request: Request, waiting: bool) {
    if waiting && request.waits() {
        load.begin(request);
        tokio::time::sleep(PAUSE).await;
        load.end(request);
    } else {
        load.work(request);
    }
}

type Queues = Arc<[Mutex<HashMap<u32, VecDeque<Request>>>]>;

/// A queue for each key with requests, and a task that empties it.
fn on_demand(load: Load, waiting: bool) -> Spent {
    let done = Tally::of(64);
    let queues: Queues = (0..64).map(|_| Mutex::default()).collect();
    let tokio = peers::tokio_mt(WORKERS, |_| async {});
    load.measure(
        || {
            for request in load.requests {
                let n = shard(request.key, 64);
                let mut queue = queues[n].lock().expect("no panic while it is locked");
                let busy = queue.contains_key(&request.key);
                queue.entry(request.key).or_default().push_back(*request);
                drop(queue);
                if busy {
                    continue;
                }
                let (queues, key) = (Arc::clone(&queues), request.key);
                tokio.spawn(async move {
                    let next = || {
                        let mut queues = queues[n].lock().expect("no panic while it is locked");
                        let next = queues.get_mut(&key).and_then(VecDeque::pop_front);
                        if next.is_none() {
                            queues.remove(&key);
                        }
                        next
                    };
                    while let Some(request) = next() {
                        serve_one(load, request, waiting).await;
                        done[n].add();
                    }
                });
            }
        },
        || done.iter().map(Tally::get).sum(),
    )
}
