//! A TCP server of lines with one fom for each connection, and with deadlines. Each locality accepts and serves its share.
//!
//! `cargo run --example tcp_server` (the example is its own client, and ends by itself)

use std::time::Duration;

use fom_net::{bind_tcp, serve_tcp};
use fom_runtime::prelude::*;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

/// One connection. A socket cannot be saved, so the machine is transient.
struct Connection {
    peer: BufReader<TcpStream>,
    line: String,
    served: u32,
}

#[fom(operation(Connection), error(std::io::Error), transient)]
#[derive(Debug)]
enum Serving {
    /// A client that is silent for a while is sent away.
    #[phase(start, to(Answer, Closed), within = "500ms", late)]
    Read,
    #[phase(to(Read), within = "5s")]
    Answer,
    #[phase(end)]
    Closed,
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        Self {
            peer: BufReader::new(stream),
            line: String::new(),
            served: 0,
        }
    }

    fn close(&self, why: &'static str) -> ServingAfterRead {
        println!("{why} after {} lines", self.served);
        ServingAfterRead::Closed
    }
}

impl ServingTransitions for Connection {
    async fn read(&mut self, _: &mut Cx<'_>) -> std::io::Result<ServingAfterRead> {
        self.line.clear();
        let read = self.peer.read_line(&mut self.line).await?;
        Ok(match self.line.trim() {
            "quit" => self.close("quit"),
            _ if read == 0 => self.close("gone"),
            _ => ServingAfterRead::Answer,
        })
    }

    async fn read_late(&mut self, _: &mut Cx<'_>) -> std::io::Result<ServingAfterRead> {
        self.peer.write_all(b"goodbye\n").await?;
        Ok(self.close("silent"))
    }

    async fn answer(&mut self, cx: &mut Cx<'_>) -> std::io::Result<()> {
        self.served += 1;
        let backwards: String = self.line.trim().chars().rev().collect();
        let answer = format!("{backwards} (locality {})\n", cx.locality());
        self.peer.write_all(answer.as_bytes()).await
    }
}

async fn talk(to: std::net::SocketAddr, lines: &[&str]) -> std::io::Result<()> {
    let mut server = BufReader::new(TcpStream::connect(to).await?);
    for line in lines {
        server.write_all(format!("{line}\n").as_bytes()).await?;
        let mut answer = String::new();
        server.read_line(&mut answer).await?;
        println!("{line} -> {}", answer.trim());
    }
    if lines.len() == 1 {
        let mut last = String::new();
        server.read_line(&mut last).await?;
        println!("(silence) -> {}", last.trim());
    }
    Ok(())
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), BoxError> {
    let runtime = Runtime::builder().localities(2).build()?;
    let listeners = bind_tcp("127.0.0.1:0".parse()?, runtime.localities())?;
    let server = serve_tcp(&runtime, listeners, |stream, _| Connection::new(stream))?;
    let address = server.local_addr();

    tokio::try_join!(
        talk(address, &["stressed", "desserts"]),
        talk(address, &["live"]),
    )?;
    server.stop().await;
    runtime
        .shutdown(Shutdown::Drain, Duration::from_secs(2))
        .await;
    println!("{}", runtime.operations());
    Ok(())
}
