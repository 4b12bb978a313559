//! Datagrams.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use fom_net::{Datagrams, ServeError, UdpCx, UdpSender, bind_udp, serve_udp};
use fom_runtime::{
    observe::{Filter, Page},
    prelude::*,
    time::{Clock, TestClock},
};
use tokio::net::UdpSocket;

use crate::kit::{any, limited, until};

/// What happened, in the order in which it did.
type Log = Arc<Mutex<Vec<Seen>>>;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Taken {
        text: String,
        locality: usize,
        sent: u64,
    },
    Tick,
}

struct Echo {
    sender: UdpSender,
    log: Log,
}

impl Echo {
    fn note(&self, seen: Seen) {
        self.log.lock().unwrap().push(seen);
    }
}

impl Datagrams for Echo {
    const TICK: Option<Duration> = Some(Duration::from_secs(1));

    fn datagram(&mut self, cx: &mut UdpCx<'_>, datagram: &[u8], from: SocketAddr) {
        let text = String::from_utf8_lossy(datagram).into_owned();
        self.note(Seen::Taken {
            text: text.clone(),
            locality: cx.locality(),
            sent: self.sender.counts().sent,
        });
        assert!(text != "panic", "as the test wants");
        self.sender.send(datagram, from);
    }

    fn home(&self, datagram: &[u8], _: SocketAddr) -> Option<usize> {
        let text = std::str::from_utf8(datagram).ok()?;
        text.strip_prefix("to ")?.parse().ok()
    }

    fn tick(&mut self, _: &mut UdpCx<'_>) {
        self.note(Seen::Tick);
    }
}

/// Returns what makes an echo that writes this log.
fn echo(log: &Log) -> impl Fn(UdpSender) -> Echo + Copy {
    move |sender| Echo {
        sender,
        log: Arc::clone(log),
    }
}

fn runtime(localities: usize) -> Runtime {
    let builder = Runtime::builder().localities(localities).pin(false);
    builder.build().unwrap()
}

async fn client() -> UdpSocket {
    UdpSocket::bind(any()).await.unwrap()
}

async fn text(client: &UdpSocket) -> String {
    let mut buffer = [0; 1024];
    let (length, _) = client.recv_from(&mut buffer).await.unwrap();
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

fn texts(log: &Log) -> Vec<String> {
    let texts = log.lock().unwrap().clone().into_iter();
    texts
        .filter_map(|seen| match seen {
            Seen::Taken { text, .. } => Some(text),
            _ => None,
        })
        .collect()
}

#[test]
fn senders_are_spread_over_the_localities_and_each_has_its_answers_in_order() {
    limited(|| async {
        let (runtime, log) = (runtime(2), Log::default());
        let sockets = bind_udp(any(), 2).unwrap();
        let expected = sockets.len();
        let make = echo(&log);
        let server = serve_udp(&runtime, sockets, make).unwrap();
        for number in 0..64 {
            let client = client().await;
            for part in 0..3 {
                let sent = format!("{number}.{part}");
                client
                    .send_to(sent.as_bytes(), server.local_addr())
                    .await
                    .unwrap();
            }
            for part in 0..3 {
                assert_eq!(text(&client).await, format!("{number}.{part}"));
            }
        }
        let places: BTreeSet<_> = log
            .lock()
            .unwrap()
            .iter()
            .filter_map(|seen| match seen {
                Seen::Taken { locality, .. } => Some(*locality),
                _ => None,
            })
            .collect();
        // 64 senders are all on one side once in 2^63 runs.
        assert_eq!(places.len(), expected);
        server.stop().await;
    });
}

#[test]
fn a_round_takes_64_and_its_answers_leave_after_it() {
    limited(|| async {
        let (runtime, log) = (runtime(1), Log::default());
        let sockets = bind_udp(any(), 1).unwrap();
        let address = sockets[0].local_addr().unwrap();
        let client = client().await;
        for number in 0..100 {
            client
                .send_to(format!("{number}").as_bytes(), address)
                .await
                .unwrap();
        }
        let make = echo(&log);
        let server = serve_udp(&runtime, sockets, make).unwrap();
        for number in 0..100 {
            assert_eq!(text(&client).await, format!("{number}"));
        }
        let sent = |seen: &Seen| match seen {
            Seen::Taken { sent, .. } => *sent,
            other => panic!("{other:?}"),
        };
        // How many had been sent when each datagram was taken.
        let sent: Vec<_> = log.lock().unwrap().iter().map(sent).collect();
        let expected = [[0; 64].as_slice(), &[64; 36]].concat();
        assert_eq!(sent, expected);
        server.stop().await;
    });
}

#[test]
fn a_panic_costs_one_datagram_and_is_reported() {
    limited(|| async {
        let (runtime, log) = (runtime(1), Log::default());
        let make = echo(&log);
        let server = serve_udp(&runtime, bind_udp(any(), 1).unwrap(), make).unwrap();
        let client = client().await;
        for sent in ["panic", "after"] {
            client
                .send_to(sent.as_bytes(), server.local_addr())
                .await
                .unwrap();
        }
        assert_eq!(text(&client).await, "after");
        let incidents = runtime.operations().incidents;
        let found = incidents
            .iter()
            .filter(|one| one.text.contains("as the test wants"));
        assert_eq!(found.count(), 1, "{incidents:?}");
        server.stop().await;
    });
}

#[test]
fn datagrams_go_to_the_locality_that_is_their_home() {
    limited(|| async {
        let (runtime, log) = (runtime(2), Log::default());
        let sockets = bind_udp(any(), 2).unwrap();
        let several = sockets.len() == 2;
        let make = echo(&log);
        let server = serve_udp(&runtime, sockets, make).unwrap();
        for _ in 0..16 {
            let client = client().await;
            for home in 0..2 {
                client
                    .send_to(format!("to {home}").as_bytes(), server.local_addr())
                    .await
                    .unwrap();
            }
            let answers = BTreeSet::from([text(&client).await, text(&client).await]);
            assert_eq!(
                answers,
                BTreeSet::from(["to 0".to_owned(), "to 1".to_owned()])
            );
        }
        for seen in &*log.lock().unwrap() {
            if let Seen::Taken { text, locality, .. } = seen {
                assert!(!several || *text == format!("to {locality}"), "{seen:?}");
            }
        }
        server.stop().await;
    });
}

#[test]
fn ticks_come_on_the_clock_of_the_runtime() {
    limited(|| async {
        let clock = TestClock::new();
        let builder = Runtime::builder().localities(1).pin(false);
        let runtime = builder.clock(Clock::from(&clock)).build().unwrap();
        let log = Log::default();
        let make = echo(&log);
        let server = serve_udp(&runtime, bind_udp(any(), 1).unwrap(), make).unwrap();
        let ticks = || {
            log.lock()
                .unwrap()
                .iter()
                .filter(|seen| **seen == Seen::Tick)
                .count()
        };
        let client = client().await;
        for number in 1..=3 {
            // The answer shows that the fom waits again, with its timer.
            client.send_to(b"now", server.local_addr()).await.unwrap();
            assert_eq!(text(&client).await, "now");
            runtime.quiet().await;
            assert_eq!(ticks(), number - 1);
            clock.advance(Duration::from_secs(1));
            until(|| ticks() == number).await;
        }
        server.stop().await;
    });
}

#[test]
fn a_server_that_stops_sends_what_waits_and_frees_its_address() {
    limited(|| async {
        let (runtime, log) = (runtime(1), Log::default());
        let make = echo(&log);
        let server = serve_udp(&runtime, bind_udp(any(), 1).unwrap(), make).unwrap();
        let (client, address) = (client().await, server.local_addr());
        let sender = server.senders()[0].clone();
        sender.send(b"before", client.local_addr().unwrap());
        server.stop().await;
        assert_eq!(text(&client).await, "before");
        // Without a fom, a datagram leaves at once.
        sender.send(b"late", client.local_addr().unwrap());
        assert_eq!(sender.counts().sent, 2);
        assert_eq!(text(&client).await, "late");
        assert_eq!(
            runtime
                .inspect()
                .survey(&Filter::default(), &Page::of(0))
                .foms,
            0
        );
        drop(sender);
        bind_udp(address, 1).unwrap();
        assert_eq!(texts(&log), Vec::<String>::new());
    });
}

#[test]
fn a_busy_socket_does_not_starve_the_ticks() {
    limited(|| async {
        let clock = TestClock::new();
        let builder = Runtime::builder().localities(1).pin(false);
        let runtime = builder.clock(Clock::from(&clock)).build().unwrap();
        let log = Log::default();
        let server = serve_udp(&runtime, bind_udp(any(), 1).unwrap(), echo(&log)).unwrap();
        // The server is its own client: more than a round takes goes round without end.
        for _ in 0..200 {
            server.senders()[0].send(b"again", server.local_addr());
        }
        until(|| log.lock().unwrap().len() > 1000).await;
        clock.advance(Duration::from_secs(1));
        until(|| log.lock().unwrap().contains(&Seen::Tick)).await;
        server.stop().await;
    });
}

#[test]
fn datagrams_leave_after_a_shutdown_that_came_first() {
    limited(|| async {
        let (runtime, log) = (runtime(1), Log::default());
        let server = serve_udp(&runtime, bind_udp(any(), 1).unwrap(), echo(&log)).unwrap();
        let (client, sender) = (client().await, server.senders()[0].clone());
        runtime
            .shutdown(Shutdown::Now, Duration::from_secs(5))
            .await;
        sender.send(b"last", client.local_addr().unwrap());
        assert_eq!(text(&client).await, "last");
        server.stop().await;
    });
}

#[test]
fn what_cannot_be_served_is_refused() {
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .capacity(1)
        .build()
        .unwrap();
    let log = Log::default();
    let make = echo(&log);
    let nothing = serve_udp(&runtime, Vec::new(), make);
    assert!(matches!(nothing, Err(ServeError::NoSocket)));
    // A socket needs two foms.
    let refused = serve_udp(&runtime, bind_udp(any(), 1).unwrap(), make);
    assert!(
        matches!(refused, Err(ServeError::Refused(_))),
        "{refused:?}"
    );
}
