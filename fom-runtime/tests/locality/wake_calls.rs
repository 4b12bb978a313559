//! What a wake costs in system calls, and that no handle is dispatched twice.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::Duration,
};

use fom_runtime::{error::BoxError, prelude::*};
use tokio::net::UdpSocket;

use crate::kit::task::{limit, one, task};

/// Answers each ping, and says on which thread.
struct Pong(mpsc::Sender<String>);

#[derive(Debug)]
enum Ping {
    Ping,
}

#[fom(operation(Pong), event(Ping), transient)]
enum Ponging {
    #[allow(dead_code)]
    #[phase(start, sync, on(Ping), to(Over))]
    Answer,
    #[phase(end)]
    Over,
}

impl PongingTransitions for Pong {
    fn answer(&mut self, _: &mut Cx<'_, Ping>, _: Ping) -> Result<PongingAfterAnswer, BoxError> {
        let thread = fs::read_link("/proc/thread-self")?;
        self.0.send(thread.display().to_string())?;
        Ok(PongingAfterAnswer::Stay)
    }
}

/// Returns how often a thread of this process has called `read` and `write`, as the kernel counts them.
fn calls(thread: &str) -> Option<u64> {
    let io = fs::read_to_string(format!("/proc/{thread}/io")).ok()?;
    let count = |name: &str| {
        let line = io.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<u64>().ok()
    };
    Some(count("syscr:")? + count("syscw:")?)
}

/// LO-07: a wake of a sleeping locality is at most one `write` of the thread that wakes it, and at most one `read` of its
/// handler. The kernel counts them for each thread, so this needs no tracer. Skipped where the kernel does not count.
#[cfg(target_os = "linux")]
#[test]
fn a_wake_is_at_most_one_system_call_on_each_side() {
    const WAKES: u64 = 100;
    let _limit = limit();
    let runtime = one();
    let (pong, pongs) = mpsc::channel();
    let fom = runtime.submit(Pong(pong)).start().unwrap();
    fom.send(Ping::Ping).unwrap();
    let handler = pongs.recv().unwrap();
    let own = fs::read_link("/proc/thread-self")
        .unwrap()
        .display()
        .to_string();
    let (Some(_), Some(_)) = (calls(&own), calls(&handler)) else {
        eprintln!("skipped: the kernel does not count the calls of a thread");
        return;
    };
    // The two measurements after the loop read, too: what one costs is measured first.
    let once = calls(&own).unwrap();
    let cost = calls(&own).unwrap() - once;
    let (own_before, handler_before) = (calls(&own).unwrap(), calls(&handler).unwrap());
    for _ in 0..WAKES {
        // Nearly always the locality goes to sleep here. If it does not, its wake is cheaper.
        thread::sleep(Duration::from_micros(300));
        fom.send(Ping::Ping).unwrap();
        assert_eq!(
            pongs.recv().unwrap(),
            handler,
            "one handler, which never blocks"
        );
    }
    let of_handler = calls(&handler).unwrap() - handler_before;
    let of_waker = calls(&own).unwrap() - own_before - 3 * cost;
    assert!(of_waker <= WAKES, "{of_waker} calls for {WAKES} wakes");
    assert!(
        of_handler <= WAKES,
        "{of_handler} calls of the handler for {WAKES} wakes"
    );
    fom.cancel();
}

/// LO-16: sockets of one locality become ready again and again while their foms process an event and other handlers take
/// over. No event of a socket is processed twice or beside another of the same socket, and none is lost.
#[test]
fn a_handle_is_never_dispatched_twice() {
    const SOCKETS: usize = 4;
    const EVENTS: usize = 100;
    let _limit = limit();
    let runtime = one();
    let (bound, addresses) = mpsc::channel();
    let inside = Arc::new(AtomicUsize::new(0));
    let overlapped = Arc::new(AtomicBool::new(false));
    let foms: Vec<_> = (0..SOCKETS)
        .map(|_| {
            let (bound, inside) = (bound.clone(), Arc::clone(&inside));
            let overlapped = Arc::clone(&overlapped);
            let serves = task(move |cx| {
                Box::pin(async move {
                    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
                    bound.send(socket.local_addr().unwrap()).unwrap();
                    let busy = AtomicBool::new(false);
                    for number in 0..EVENTS {
                        let mut byte = [0; 1];
                        socket.recv_from(&mut byte).await.unwrap();
                        assert!(!busy.swap(true, SeqCst), "dispatched while it is processed");
                        assert_eq!(usize::from(byte[0]), number, "in order, each once");
                        {
                            let _guard = cx.enter_block().unwrap();
                            // Others that are here at the same time ran on a promoted handler.
                            if inside.fetch_add(1, SeqCst) > 0 {
                                overlapped.store(true, SeqCst);
                            }
                            thread::sleep(Duration::from_micros(200));
                            inside.fetch_sub(1, SeqCst);
                        }
                        assert!(busy.swap(false, SeqCst));
                    }
                })
            });
            runtime.submit(serves).start().unwrap()
        })
        .collect();
    let addresses: Vec<_> = (0..SOCKETS).map(|_| addresses.recv().unwrap()).collect();
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for number in 0..EVENTS {
        for address in &addresses {
            sender.send_to(&[number as u8], address).unwrap();
        }
    }
    for fom in foms {
        fom.wait().unwrap();
    }
    assert!(overlapped.load(SeqCst), "the followers were never used");
}
