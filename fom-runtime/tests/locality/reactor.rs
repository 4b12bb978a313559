//! The handler's sleep: sockets, timers and wakes reach foms however busy or idle their locality is.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    time::{Duration, Instant},
};

use fom_runtime::{
    context::Local, error::BoxError, machine::FomState, prelude::*, time::TestClock,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    sync::mpsc as async_mpsc,
};

use crate::kit::task::{self, Door, limit, one, pause, quick, task, until};

/// A fom that echoes to itself over TCP and UDP, sleeps, spawns and uses a channel: all of tokio's.
fn tokio_user() -> task::Task {
    task(|_| {
        Box::pin(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (tell, mut told) = async_mpsc::channel(1);
            tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut text = [0; 4];
                stream.read_exact(&mut text).await.unwrap();
                stream.write_all(&text).await.unwrap();
                tell.send("served").await.unwrap();
            });
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"ping").await.unwrap();
            let mut text = [0; 4];
            stream.read_exact(&mut text).await.unwrap();
            assert_eq!(&text, b"ping");
            assert_eq!(told.recv().await, Some("served"));

            let one = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let other = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let (a, b) = tokio::join!(
                async {
                    one.send_to(b"datagram", other.local_addr().unwrap())
                        .await
                        .unwrap();
                    let mut buffer = [0; 16];
                    one.recv_from(&mut buffer).await.unwrap().0
                },
                async {
                    let mut buffer = [0; 16];
                    let (length, from) = other.recv_from(&mut buffer).await.unwrap();
                    other.send_to(&buffer[..length], from).await.unwrap();
                    length
                }
            );
            assert_eq!((a, b), (8, 8));
            tokio::time::sleep(Duration::from_millis(2)).await;
            let late =
                tokio::time::timeout(Duration::from_millis(2), std::future::pending::<()>()).await;
            assert!(late.is_err());
            assert_eq!(tokio::spawn(async { 7 }).await.unwrap(), 7);
            assert_eq!(tokio::task::spawn_blocking(|| 8).await.unwrap(), 8);
        })
    })
}

/// LO-07: what a fom awaits of tokio wakes it while its locality is otherwise idle. No other thread runs work of an idle
/// locality in place.
#[test]
fn tokio_in_an_idle_locality() {
    let _limit = limit();
    let runtime = one();
    for _ in 0..5 {
        runtime
            .submit(tokio_user())
            .start()
            .unwrap()
            .wait()
            .unwrap();
    }
}

/// LO-16: while other handlers block, the promoted one serves the sockets and timers, which belong to no thread. The
/// reactor reports readiness and runs no user code, so it suspends no handle while a fom processes an event.
#[test]
fn tokio_while_others_block() {
    let _limit = limit();
    let runtime = one();
    let door = Door::default();
    let blocked: Vec<_> = (0..3)
        .map(|_| {
            let door = door.clone();
            let (entered, has_entered) = mpsc::channel();
            let blocks = quick(move |cx| {
                let _guard = cx.enter_block().unwrap();
                entered.send(()).unwrap();
                door.pass();
            });
            let handle = runtime.submit(blocks).start().unwrap();
            has_entered.recv().unwrap();
            handle
        })
        .collect();
    for _ in 0..5 {
        runtime
            .submit(tokio_user())
            .start()
            .unwrap()
            .wait()
            .unwrap();
    }
    assert!(blocked.iter().all(|fom| fom.state() == FomState::Running));
    door.open();
    for handle in blocked {
        handle.wait().unwrap();
    }
}

/// LO-16: a socket that was first awaited on one thread is served by the next handler, after the first has blocked.
#[test]
fn a_socket_outlives_its_handler() {
    let _limit = limit();
    let runtime = one();
    let (tell, told) = mpsc::channel();
    let receives = task(move |_| {
        Box::pin(async move {
            let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            tell.send(socket.local_addr().unwrap()).unwrap();
            let mut buffer = [0; 8];
            for n in 0..20_u8 {
                socket.recv(&mut buffer).await.unwrap();
                assert_eq!(buffer[0], n);
            }
        })
    });
    let receives = runtime.submit(receives).start().unwrap();
    let address = told.recv().unwrap();
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let blocks = task(move |cx| {
        Box::pin(async move {
            // From inside the section: only another thread can serve the socket meanwhile. One at a time, so that each
            // datagram meets a handler that may sleep.
            for n in 0..20_u8 {
                let _guard = cx.enter_block().unwrap();
                sender.send_to(&[n], address).unwrap();
            }
        })
    });
    runtime.submit(blocks).start().unwrap().wait().unwrap();
    receives.wait().unwrap();
}

/// Its drop takes a while.
struct Guest(Arc<AtomicBool>);

impl Drop for Guest {
    fn drop(&mut self) {
        std::thread::sleep(Duration::from_millis(20));
        self.0.store(true, SeqCst);
    }
}

/// A shutdown drops the unfinished tasks that were spawned in a locality before it returns.
#[test]
fn what_was_spawned_is_dropped_before_a_shutdown_returns() {
    let _limit = limit();
    for how in [Shutdown::Drain, Shutdown::Now] {
        let runtime = one();
        let gone = Arc::new(AtomicBool::new(false));
        let guest = Guest(Arc::clone(&gone));
        let spawns = quick(move |_| {
            tokio::spawn(async move {
                let _guest = guest;
                std::future::pending::<()>().await;
            });
        });
        runtime.submit(spawns).start().unwrap().wait().unwrap();
        let report = runtime.shutdown_blocking(how, task::LIMIT);
        assert!(report.remained.is_empty());
        assert!(gone.load(SeqCst));
    }
}

/// Trap 12: timers fire in a locality where nothing else happens, on the real clock.
#[test]
fn timers_fire_in_an_idle_locality() {
    let _limit = limit();
    let runtime = one();
    let (tell, told) = mpsc::channel();
    let start = Instant::now();
    for wait in [30, 10, 20] {
        let tell = tell.clone();
        let sleeps = task(move |cx| {
            Box::pin(async move {
                cx.sleep(Duration::from_millis(wait)).await;
                tell.send(wait).unwrap();
            })
        });
        drop(runtime.submit(sleeps).start().unwrap());
    }
    let order: Vec<_> = (0..3).map(|_| told.recv().unwrap()).collect();
    assert!(start.elapsed() >= Duration::from_millis(30));
    assert_eq!(order, [10, 20, 30]);
}

/// Trap 12: moving a test's clock while the locality runs, even by one of its own foms, fires the due timers.
#[test]
fn a_clock_moved_inside_the_locality() {
    let _limit = limit();
    let clock = TestClock::new();
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .clock(&clock)
        .build()
        .unwrap();
    for _ in 0..20 {
        let sleeps = task(|cx| Box::pin(async move { cx.sleep(Duration::from_secs(5)).await }));
        let sleeps = runtime.submit(sleeps).start().unwrap();
        futures::executor::block_on(runtime.quiet());
        let clock = clock.clone();
        let moves = quick(move |_| clock.advance(Duration::from_secs(5)));
        runtime.submit(moves).start().unwrap().wait().unwrap();
        sleeps.wait().unwrap();
    }
}

/// Trap 11: a fom that always has more to do does not keep other foms of its locality from running, nor their sockets
/// and timers. FL-04.
#[test]
fn tokio_while_others_spin() {
    let _limit = limit();
    let runtime = one();
    let over = Arc::new(AtomicBool::new(false));
    let spinning: Vec<_> = (0..3)
        .map(|_| {
            let over = Arc::clone(&over);
            let spins = task(move |_| {
                Box::pin(async move {
                    while !over.load(SeqCst) {
                        pause().await;
                    }
                })
            });
            runtime.submit(spins).start().unwrap()
        })
        .collect();
    for _ in 0..3 {
        runtime
            .submit(tokio_user())
            .start()
            .unwrap()
            .wait()
            .unwrap();
    }
    over.store(true, SeqCst);
    for handle in spinning {
        handle.wait().unwrap();
    }
}

/// A machine of plain functions that loops without ever waiting.
struct Loop {
    rounds: u64,
    over: Arc<AtomicBool>,
}

#[fom(operation(Loop), transient)]
enum Looping {
    #[phase(start, sync, to(There, Stopped))]
    Here,
    #[phase(sync, to(Here))]
    There,
    #[phase(end)]
    Stopped,
}

impl LoopingTransitions for Loop {
    fn here(&mut self, _: &mut Cx<'_>) -> Result<LoopingAfterHere, BoxError> {
        self.rounds += 1;
        Ok(if self.over.load(SeqCst) {
            LoopingAfterHere::Stopped
        } else {
            LoopingAfterHere::There
        })
    }

    fn there(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// FL-04: a loop through phases without a wait is bounded as well: then the fom goes to the tail. Trap 11: jobs, timers
/// and other foms run meanwhile.
#[test]
fn a_self_looping_fom_starves_no_other() {
    let _limit = limit();
    let runtime = one();
    let over = Arc::new(AtomicBool::new(false));
    let loops = runtime
        .submit(Loop {
            rounds: 0,
            over: Arc::clone(&over),
        })
        .start()
        .unwrap();
    for n in 0..50 {
        assert_eq!(
            futures::executor::block_on(runtime.call(0, move |_| n)),
            Ok(n)
        );
        runtime
            .submit(quick(|_| {}))
            .start()
            .unwrap()
            .wait()
            .unwrap();
    }
    let sleeps = task(|cx| Box::pin(async move { cx.sleep(Duration::from_millis(2)).await }));
    runtime.submit(sleeps).start().unwrap().wait().unwrap();
    runtime
        .submit(tokio_user())
        .start()
        .unwrap()
        .wait()
        .unwrap();
    over.store(true, SeqCst);
    let ended = loops.wait().unwrap();
    assert!(ended.operation.rounds > 100, "{}", ended.operation.rounds);
}

/// FL-04: a fom that never waits can be cancelled and shut down nevertheless, between two runs.
#[test]
fn a_self_looping_fom_can_be_cancelled() {
    let _limit = limit();
    let runtime = one();
    let never = Arc::new(AtomicBool::new(false));
    let loops = runtime
        .submit(Loop {
            rounds: 0,
            over: Arc::clone(&never),
        })
        .start()
        .unwrap();
    loops.cancel();
    assert!(matches!(loops.wait().unwrap_err().cause, Cause::Cancelled));
    let loops = runtime
        .submit(Loop {
            rounds: 0,
            over: never,
        })
        .start()
        .unwrap();
    runtime.shutdown_blocking(Shutdown::Now, task::LIMIT);
    assert!(matches!(loops.wait().unwrap_err().cause, Cause::Shutdown));
}

/// LO-08: a flood of 100,000 posts does not keep foms from running, and foms that always run do not keep posts from
/// running.
#[test]
fn neither_posts_nor_foms_starve_the_other() {
    let _limit = limit();
    const POSTS: usize = 100_000;
    let runtime = one();
    let (entered, has_entered) = mpsc::channel();
    let hold = Door::default();
    let holder = {
        let hold = hold.clone();
        runtime.submit(quick(move |_| {
            entered.send(()).unwrap();
            hold.pass();
        }))
    };
    let holder = holder.start().unwrap();
    has_entered.recv().unwrap();
    // All posts are in the inbox before the locality looks.
    let done = Arc::new(AtomicUsize::new(0));
    for _ in 0..POSTS {
        let done = Arc::clone(&done);
        let count = move |_: &mut Local<'_>| {
            done.fetch_add(1, SeqCst);
        };
        runtime.post(0, count).unwrap();
    }
    let seen = {
        let done = Arc::clone(&done);
        let (tell, told) = mpsc::channel();
        drop(
            runtime
                .submit(quick(move |_| tell.send(done.load(SeqCst)).unwrap()))
                .start()
                .unwrap(),
        );
        told
    };
    let over = Arc::new(AtomicBool::new(false));
    let loops = runtime
        .submit(Loop {
            rounds: 0,
            over: Arc::clone(&over),
        })
        .start()
        .unwrap();
    hold.open();
    holder.wait().unwrap();
    let before = seen.recv().unwrap();
    assert!(before < POSTS / 10, "the fom came after {before} posts");
    until("all posts ran", || done.load(SeqCst) == POSTS);
    over.store(true, SeqCst);
    loops.wait().unwrap();
}

/// A job that posts itself again, until it is over.
fn again(over: Arc<AtomicBool>) -> impl FnOnce(&mut Local<'_>) + Send {
    move |_| {
        if !over.load(SeqCst)
            && let Some(runtime) = POSTED.get()
        {
            runtime.post(0, again(over)).unwrap();
        }
    }
}

static POSTED: std::sync::OnceLock<Runtime> = std::sync::OnceLock::new();

/// LO-08: jobs that never end do not keep the locality from looking at sockets and tokio's timers.
#[test]
fn jobs_do_not_starve_the_reactor() {
    let _limit = limit();
    let runtime = POSTED.get_or_init(one);
    let over = Arc::new(AtomicBool::new(false));
    runtime.post(0, again(Arc::clone(&over))).unwrap();
    for _ in 0..3 {
        runtime
            .submit(tokio_user())
            .start()
            .unwrap()
            .wait()
            .unwrap();
    }
    over.store(true, SeqCst);
}

/// LO-07: a sleeping locality is woken from plain threads, in every way, again and again.
#[test]
fn a_sleeping_locality_is_woken() {
    woken_from_outside(one());
}

/// LO-14: a locality that spins before it sleeps wakes as well, while it spins and after.
#[test]
fn a_locality_that_spins_is_woken() {
    let spin = Duration::from_micros(50);
    let builder = Runtime::builder().localities(1).pin(false).spin(spin);
    woken_from_outside(builder.build().unwrap());
}

fn woken_from_outside(runtime: Runtime) {
    let _limit = limit();
    let (wake, mut woken) = async_mpsc::unbounded_channel::<std::sync::mpsc::Sender<u32>>();
    let answers = task(move |_| {
        Box::pin(async move {
            let mut n = 0;
            while let Some(back) = woken.recv().await {
                n += 1;
                back.send(n).unwrap();
            }
        })
    });
    let answers = runtime.submit(answers).start().unwrap();
    for n in 1..=300 {
        // Asleep, or going to sleep, each time.
        futures::executor::block_on(runtime.quiet());
        let wake = wake.clone();
        let (back, came) = mpsc::channel();
        std::thread::spawn(move || wake.send(back).unwrap())
            .join()
            .unwrap();
        assert_eq!(came.recv().unwrap(), n);
    }
    drop(wake);
    answers.wait().unwrap();
}

/// LO-07: wakes that meet the locality on its way to sleep are not lost: ping-pong between two localities.
#[test]
fn ping_pong_between_localities() {
    let _limit = limit();
    const ROUNDS: u32 = 5000;
    let runtime = Runtime::builder().localities(2).pin(false).build().unwrap();
    let (to_pong, mut at_pong) = async_mpsc::channel::<u32>(1);
    let (to_ping, mut at_ping) = async_mpsc::channel::<u32>(1);
    let ping = task(move |_| {
        Box::pin(async move {
            for n in 0..ROUNDS {
                to_pong.send(n).await.unwrap();
                assert_eq!(at_ping.recv().await, Some(n));
            }
        })
    });
    let pong = task(move |_| {
        Box::pin(async move {
            while let Some(n) = at_pong.recv().await {
                to_ping.send(n).await.unwrap();
            }
        })
    });
    let pong = runtime
        .submit(pong)
        .place(Placement::Locality(1))
        .start()
        .unwrap();
    let ping = runtime
        .submit(ping)
        .place(Placement::Locality(0))
        .start()
        .unwrap();
    ping.wait().unwrap();
    pong.wait().unwrap();
}

/// LO-07: 100,000 parked foms cost an idle locality no processor time: its threads do not run at all.
#[test]
fn idle_localities_do_not_run() {
    let _limit = limit();
    const FOMS: usize = 100_000;
    let runtime = one();
    for _ in 0..FOMS {
        drop(
            runtime
                .submit(task(|_| Box::pin(std::future::pending())))
                .start()
                .unwrap(),
        );
    }
    futures::executor::block_on(runtime.quiet());
    assert_eq!(runtime.in_flight(), FOMS);
    // The kernel's count of the thread's runs on a processor. Other tests of this process have localities too, perhaps
    // with the same thread names, so the thread is found by its id.
    let id = futures::executor::block_on(runtime.call(0, |_| thread_id())).unwrap();
    let runs = || {
        let status = std::fs::read_to_string(format!("/proc/self/task/{id}/status")).unwrap();
        status
            .lines()
            .filter(|line| line.contains("ctxt_switches"))
            .map(|line| {
                line.split_whitespace()
                    .last()
                    .unwrap()
                    .parse::<u64>()
                    .unwrap()
            })
            .sum::<u64>()
    };
    futures::executor::block_on(runtime.quiet());
    // Each count is of a stretch of real time. For about a second after the burst the locality tends its memory, and a
    // busy machine takes the processor away from it meanwhile. After that it must not run.
    let mut counts = Vec::new();
    while counts.last().is_none_or(|runs| *runs > 5) {
        assert!(counts.len() < 25, "runs of an idle thread: {counts:?}");
        let before = runs();
        std::thread::sleep(Duration::from_millis(200));
        counts.push(runs() - before);
    }
    let report = runtime.shutdown_blocking(Shutdown::Now, task::LIMIT);
    assert!(report.remained.is_empty());
}

fn thread_id() -> u32 {
    let link = std::fs::read_link("/proc/thread-self").unwrap();
    link.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

/// Awaits a fom of each of these, each started in another way.
async fn submits(runtime: Runtime) {
    runtime.submit(quick(|_| {})).await.unwrap();
    let handle = runtime.submit(tokio_user()).start().unwrap();
    handle.await.unwrap();
    let (a, b) = futures::future::join(
        runtime.submit(tokio_user()).into_future(),
        runtime.submit(quick(|_| {})).into_future(),
    )
    .await;
    a.unwrap();
    b.unwrap();
}

/// Foms are submitted from and awaited in any async code, and in none: tokio's multi-thread scheduler.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_tokio() {
    let _limit = limit();
    let runtime = one();
    let tasks: Vec<_> = (0..4)
        .map(|_| tokio::spawn(submits(runtime.clone())))
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

/// The same from an executor that knows nothing of tokio, and a plain thread.
#[test]
fn from_an_executor_and_a_thread() {
    let _limit = limit();
    let runtime = one();
    futures::executor::block_on(submits(runtime.clone()));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let runtime = runtime.clone();
            std::thread::spawn(move || {
                runtime
                    .submit(tokio_user())
                    .start()
                    .unwrap()
                    .wait()
                    .unwrap()
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

/// The same inside another fom, of the same runtime and of another.
#[test]
fn from_another_fom() {
    let _limit = limit();
    let (here, there) = (one(), one());
    let other = there.clone();
    let outer = task(move |cx| {
        Box::pin(async move {
            let own = cx.runtime();
            assert_eq!(Runtime::current().unwrap().localities(), own.localities());
            submits(own).await;
            submits(other).await;
        })
    });
    here.submit(outer).start().unwrap().wait().unwrap();
    assert!(Runtime::current().is_none());
}
