//! The server and its twin give the same answers; the limits of the server hold.

use std::{net::SocketAddr, time::Duration};

use fom_runtime::{prelude::*, time::TestClock};
use payments::{Server, twin};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};

/// A test that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(30);

/// Returns the status and the body of the answer, and lets the server close the connection.
async fn ask(server: SocketAddr, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(server).await.unwrap();
    let request = format!("{request} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    answer(stream).await
}

async fn answer(mut stream: TcpStream) -> (u16, String) {
    let mut text = String::new();
    timeout(LIMIT, stream.read_to_string(&mut text))
        .await
        .expect("the server closes the connection")
        .unwrap();
    let (head, body) = text.split_once("\r\n\r\n").expect("an answer with a head");
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

fn runtime(clock: &TestClock) -> Runtime {
    Runtime::builder()
        .localities(2)
        .clock(clock)
        .build()
        .unwrap()
}

fn serve(runtime: &Runtime) -> Server {
    Server::start(runtime, "127.0.0.1:0".parse().unwrap()).unwrap()
}

const ASKED: [(&str, u16, &str); 9] = [
    ("GET /quote/1000", 200, "10.15\n"),
    ("GET /quote/0", 200, "0.00\n"),
    ("POST /pay/1000", 200, "10.15\n"),
    ("POST /pay/1000001", 402, "Payment Required"),
    ("GET /pay/1000", 405, "Method Not Allowed"),
    ("POST /quote/1000", 405, "Method Not Allowed"),
    ("GET /quote/ten", 400, "Bad Request"),
    ("GET /quote/18446744073709551615", 400, "Bad Request"),
    ("GET /", 404, "Not Found"),
];

#[tokio::test]
async fn the_server_answers() {
    let runtime = runtime(&TestClock::new());
    let server = serve(&runtime);
    for (request, status, body) in ASKED {
        assert_eq!(
            ask(server.local_addr(), request).await,
            (status, body.to_owned()),
            "{request}"
        );
    }
    let report = server.stop(LIMIT).await;
    assert!(report.remained.is_empty(), "{report:?}");
    assert_eq!(runtime.in_flight(), 0);
}

#[tokio::test]
async fn the_twin_gives_the_same_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = watch::channel(false);
    let serving = tokio::spawn(twin::serve(listener, 2, stopped));
    for (request, status, body) in ASKED {
        assert_eq!(
            ask(address, request).await,
            (status, body.to_owned()),
            "{request}"
        );
    }
    stop.send_replace(true);
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_bank_that_says_nothing_costs_its_client_two_seconds() {
    let clock = TestClock::new();
    let runtime = runtime(&clock);
    let server = serve(&runtime);
    let silent = tokio::spawn(ask(server.local_addr(), "POST /pay/100000001"));
    let waits = |runtime: &Runtime| {
        let operations = runtime.operations();
        operations.to_string().contains("AwaitBank")
    };
    timeout(LIMIT, async {
        while !waits(&runtime) {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the payment waits");
    // Others are served meanwhile.
    assert_eq!(ask(server.local_addr(), "POST /pay/1").await.0, 200);

    clock.advance(Duration::from_millis(1_999));
    runtime.quiet().await;
    assert!(waits(&runtime));
    clock.advance(Duration::from_millis(1));
    let answer = timeout(LIMIT, silent).await.unwrap().unwrap();
    assert_eq!(answer, (504, "Gateway Timeout".to_owned()));
    server.stop(LIMIT).await;
}

#[tokio::test]
async fn what_is_no_http_harms_its_connection_alone() {
    let runtime = runtime(&TestClock::new());
    let server = serve(&runtime);
    for hostile in [
        &b"\x16\x03\x01\x02\x00\x01\x00"[..],
        b"GET /quote/1 HTTP/1.1\r\nhost",
        &[b'x'; 600_000],
    ] {
        let mut stream = TcpStream::connect(server.local_addr()).await.unwrap();
        // The server may have closed the connection before it has all.
        let _ = stream.write_all(hostile).await;
    }
    assert_eq!(ask(server.local_addr(), "GET /quote/1000").await.0, 200);
    let report = server.stop(LIMIT).await;
    assert!(report.remained.is_empty(), "{report:?}");
}

#[tokio::test]
async fn a_stop_answers_the_request_that_runs_and_closes_the_connections() {
    let clock = TestClock::new();
    let runtime = runtime(&clock);
    let server = serve(&runtime);
    let address = server.local_addr();
    let mut idle = TcpStream::connect(address).await.unwrap();
    let request = b"GET /quote/1000 HTTP/1.1\r\nhost: test\r\n\r\n";
    idle.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"10.15\n") {
        assert_ne!(idle.read_buf(&mut answer).await.unwrap(), 0);
    }
    let running = tokio::spawn(ask(address, "POST /pay/100000001"));
    timeout(LIMIT, async {
        while !runtime.operations().to_string().contains("AwaitBank") {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the payment waits");

    let stopping = tokio::spawn(server.stop(LIMIT));
    let closed = timeout(LIMIT, idle.read(&mut [0; 1])).await.unwrap();
    assert!(matches!(closed, Ok(0)), "{closed:?}");
    clock.advance(Duration::from_secs(2));
    assert_eq!(timeout(LIMIT, running).await.unwrap().unwrap().0, 504);
    let report = stopping.await.unwrap();
    assert!(report.remained.is_empty(), "{report:?}");
    assert!(TcpStream::connect(address).await.is_err());
}
