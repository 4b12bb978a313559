//! Sends requests over many connections, each with one request at a time, and prints how fast the answers came.
//!
//! `payments-load ADDRESS [--path PATH] [--post] [--connections N] [--seconds N]`

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use lexopt::prelude::*;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Load {
    address: SocketAddr,
    request: String,
    connections: usize,
    time: Duration,
}

fn load() -> Result<Load, Failure> {
    let mut parser = lexopt::Parser::from_env();
    let (mut address, mut path, mut method) = (None, "/quote/1000".to_owned(), "GET");
    let (mut connections, mut seconds) = (256, 3);
    while let Some(argument) = parser.next()? {
        match argument {
            Value(value) if address.is_none() => address = Some(value.parse()?),
            Long("path") => path = parser.value()?.string()?,
            Long("post") => method = "POST",
            Long("connections") => connections = parser.value()?.parse()?,
            Long("seconds") => seconds = parser.value()?.parse()?,
            _ => return Err(argument.unexpected().into()),
        }
    }
    let address = address.ok_or("payments-load ADDRESS ..: where is the server?")?;
    Ok(Load {
        address,
        request: format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\n\r\n"),
        connections,
        time: Duration::from_secs(seconds),
    })
}

/// The load takes one thread, so that the server has the other processor of a small machine.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let load = load()?;
    let mut streams = Vec::new();
    for _ in 0..load.connections {
        let stream = TcpStream::connect(load.address).await?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    let begun = Instant::now();
    let times = Arc::new(Mutex::new(Histogram::new(3)?));
    let mut clients = JoinSet::new();
    for stream in streams {
        let (request, times) = (load.request.clone(), Arc::clone(&times));
        clients.spawn(client(stream, request, times, begun + load.time));
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    let times = times.lock().map_err(|_| "a client panicked")?;
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{:.0} requests/s, p50 {} us, p99 {} us",
        times.len() as f64 / seconds,
        times.value_at_quantile(0.5),
        times.value_at_quantile(0.99),
    );
    Ok(())
}

/// Sends requests until this time. Records how long each took, in microseconds.
async fn client(
    mut stream: TcpStream,
    request: String,
    times: Arc<Mutex<Histogram<u32>>>,
    until: Instant,
) -> Result<(), Failure> {
    let mut buffer = [0; 512];
    let mut at = Instant::now();
    while at < until {
        stream.write_all(request.as_bytes()).await?;
        let mut filled = 0;
        loop {
            let read = stream.read(&mut buffer[filled..]).await?;
            if read == 0 {
                return Err("the server closed the connection".into());
            }
            filled += read;
            if is_whole(&buffer[..filled])? {
                break;
            }
        }
        let now = Instant::now();
        let took = now.duration_since(at).as_micros() as u64;
        times
            .lock()
            .map_err(|_| "a client panicked")?
            .record(took)?;
        at = now;
    }
    Ok(())
}

/// Returns whether an answer is complete. The answers here have a length and are short.
fn is_whole(answer: &[u8]) -> Result<bool, Failure> {
    let Some(head) = answer.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(false);
    };
    let text = std::str::from_utf8(&answer[..head])?;
    if !text.starts_with("HTTP/1.1 200 ") {
        return Err(text.lines().next().unwrap_or_default().into());
    }
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .ok_or("the answer has no length")?;
    Ok(answer.len() >= head + 4 + length.parse::<usize>()?)
}
