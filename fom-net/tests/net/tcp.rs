//! Connections.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use fom_net::{ServeError, bind_tcp, serve_tcp};
use fom_runtime::{
    observe::{Filter, Page},
    prelude::*,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::kit::{any, limited, until};

/// A connection that tells its locality, and ends with the client.
struct Connection {
    stream: TcpStream,
}

#[fom(operation(Connection), error(io::Error), transient)]
enum Serving {
    #[phase(start, to(Wait))]
    Greet,
    #[phase(to(Closed), hung = "never")]
    Wait,
    #[phase(end)]
    Closed,
}

impl ServingTransitions for Connection {
    async fn greet(&mut self, cx: &mut Cx<'_>) -> io::Result<()> {
        self.stream.write_all(&[cx.locality() as u8]).await
    }

    async fn wait(&mut self, _: &mut Cx<'_>) -> io::Result<()> {
        self.stream.read(&mut [0]).await.map(drop)
    }
}

fn connection(stream: TcpStream, _: SocketAddr) -> Connection {
    Connection { stream }
}

/// Returns the connection, and the locality that serves it.
async fn connect(to: SocketAddr) -> (TcpStream, u8) {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let locality = stream.read_u8().await.unwrap();
    (stream, locality)
}

#[test]
fn the_localities_take_turns_with_the_connections_of_a_listener() {
    limited(|| async {
        let runtime = Runtime::builder().localities(2).pin(false).build().unwrap();
        let server = serve_tcp(&runtime, bind_tcp(any(), 1).unwrap(), connection).unwrap();
        let mut held = Vec::new();
        for number in 0..8 {
            let (stream, locality) = connect(server.local_addr()).await;
            assert_eq!(locality, number % 2);
            held.push(stream);
        }
        server.stop().await;
    });
}

#[test]
fn several_listeners_spread_the_connections_too() {
    limited(|| async {
        let runtime = Runtime::builder().localities(2).pin(false).build().unwrap();
        let listeners = bind_tcp(any(), 2).unwrap();
        let most = listeners.len();
        let server = serve_tcp(&runtime, listeners, connection).unwrap();
        let mut counts = [0usize; 2];
        let mut held = Vec::new();
        for _ in 0..20 {
            let (stream, locality) = connect(server.local_addr()).await;
            counts[usize::from(locality)] += 1;
            held.push(stream);
        }
        assert!(counts[0].abs_diff(counts[1]) <= most, "{counts:?}");
        server.stop().await;
    });
}

#[test]
fn a_connection_waits_in_the_kernel_until_there_is_room() {
    limited(|| async {
        // The fom that accepts, and two connections.
        let builder = Runtime::builder().localities(1).pin(false).capacity(3);
        let runtime = builder.build().unwrap();
        let made = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&made);
        let server = serve_tcp(&runtime, bind_tcp(any(), 1).unwrap(), move |stream, _| {
            counted.fetch_add(1, Ordering::Relaxed);
            Connection { stream }
        })
        .unwrap();
        let (first, _) = connect(server.local_addr()).await;
        let (_second, _) = connect(server.local_addr()).await;
        // The third is accepted and waits for room; the fourth stays in the kernel.
        let mut third = TcpStream::connect(server.local_addr()).await.unwrap();
        let mut fourth = TcpStream::connect(server.local_addr()).await.unwrap();
        until(|| made.load(Ordering::Relaxed) == 3).await;
        runtime.quiet().await;
        assert_eq!(
            runtime
                .inspect()
                .survey(&Filter::default(), &Page::of(0))
                .foms,
            3
        );
        assert_eq!(made.load(Ordering::Relaxed), 3);
        drop(first);
        third.read_u8().await.unwrap();
        drop(third);
        fourth.read_u8().await.unwrap();
        server.stop().await;
    });
}

#[test]
fn a_panic_closes_its_connection_only() {
    limited(|| async {
        let runtime = Runtime::builder().localities(2).pin(false).build().unwrap();
        let peers = Arc::new(Mutex::new(0));
        let server = serve_tcp(&runtime, bind_tcp(any(), 1).unwrap(), move |stream, _| {
            let number = {
                let mut peers = peers.lock().unwrap();
                *peers += 1;
                *peers
            };
            // One in each locality.
            assert!(number > 2, "as the test wants");
            Connection { stream }
        })
        .unwrap();
        for _ in 0..2 {
            let mut lost = TcpStream::connect(server.local_addr()).await.unwrap();
            assert_eq!(lost.read(&mut [0]).await.unwrap(), 0);
        }
        connect(server.local_addr()).await;
        let incidents = runtime.operations().incidents;
        let [incident] = &*incidents else {
            panic!("{incidents:?}");
        };
        assert!(incident.text.contains("as the test wants"));
        assert_eq!(incident.count, 2);
        server.stop().await;
    });
}

#[test]
fn connections_outlive_the_server_that_accepted_them() {
    limited(|| async {
        let runtime = Runtime::builder().localities(2).pin(false).build().unwrap();
        let server = serve_tcp(&runtime, bind_tcp(any(), 1).unwrap(), connection).unwrap();
        let address = server.local_addr();
        let (mut held, _) = connect(address).await;
        server.stop().await;
        assert!(TcpStream::connect(address).await.is_err());
        held.write_all(b"x").await.unwrap();
        // The server closes its side after the byte.
        assert_eq!(held.read(&mut [0]).await.unwrap(), 0);
    });
}

#[test]
fn no_listener_is_an_error() {
    let runtime = Runtime::builder().localities(1).pin(false).build().unwrap();
    let nothing = serve_tcp(&runtime, Vec::new(), connection);
    assert!(matches!(nothing, Err(ServeError::NoSocket)));
}
