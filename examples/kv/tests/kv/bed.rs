//! A server for tests, on a clock that moves only when a test moves it, and clients.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use fom_runtime::time::TestClock;
use kv::{Server, Settings};
use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::types::OwnedFrame;

/// The longest wait of a test.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(future)
}

/// A server and its clock.
pub(crate) struct Bed {
    pub(crate) server: Server,
    pub(crate) clock: TestClock,
}

impl Bed {
    pub(crate) fn new() -> Bed {
        Bed::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Settings)) -> Bed {
        let clock = TestClock::new();
        let mut settings = Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            localities: Some(2),
            clock: Some(clock.clone()),
            ..Settings::default()
        };
        change(&mut settings);
        let server = block_on(Server::start(settings)).expect("a server");
        Bed { server, clock }
    }

    pub(crate) fn client(&self) -> Caller {
        Caller::to(self.server.local())
    }

    /// Moves the clock on, once all foms wait.
    pub(crate) fn advance(&self, by: Duration) {
        block_on(self.server.runtime().quiet());
        self.clock.advance(by);
        block_on(self.server.runtime().quiet());
    }

    /// Waits until `wanted` clients wait for an element.
    pub(crate) fn blocked(&self, wanted: usize) {
        let mut asking = self.client();
        until("as many wait for an element", || {
            let info = asking.text(&["INFO"]);
            info.contains(&format!("blocked_clients:{wanted}\r\n"))
        });
    }

    /// Ends the server; no fom may remain.
    pub(crate) fn stop(&self) {
        let report = block_on(self.server.stop(LIMIT));
        assert!(report.remained.is_empty(), "{:?}", report.remained);
    }
}

/// Checks again and again until `is_so` returns true. Fails after too long.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "not in time: {what}");
        std::thread::yield_now();
    }
}

/// A client that waits for each reply.
pub(crate) struct Caller {
    pub(crate) stream: TcpStream,
    came: Vec<u8>,
}

impl Caller {
    pub(crate) fn to(address: SocketAddr) -> Caller {
        Caller::of(TcpStream::connect(address).expect("a connection"))
    }

    pub(crate) fn of(stream: TcpStream) -> Caller {
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(LIMIT)).expect("a socket");
        stream.set_write_timeout(Some(LIMIT)).expect("a socket");
        Caller {
            stream,
            came: Vec::new(),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("it is written");
    }

    /// If the server is gone, the test notices it when no reply comes.
    pub(crate) fn send(&mut self, words: &[&str]) {
        let _ = self.stream.write_all(&request(words));
    }

    /// Returns the next reply. Returns `None` if the server has closed the connection.
    pub(crate) fn next(&mut self) -> Option<OwnedFrame> {
        loop {
            if let Some((frame, used)) = decode(&self.came).expect("the protocol") {
                self.came.drain(..used);
                return Some(frame);
            }
            let mut more = [0; 16 * 1024];
            match self.stream.read(&mut more) {
                Ok(0) => {
                    assert!(self.came.is_empty(), "half a reply");
                    return None;
                }
                Ok(count) => self.came.extend_from_slice(&more[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no reply in time: {error}"),
            }
        }
    }

    /// Like `next`, for a server that may be killed meanwhile: half a reply counts as none.
    pub(crate) fn next_or_end(&mut self) -> Option<OwnedFrame> {
        loop {
            if let Some((frame, used)) = decode(&self.came).expect("the protocol") {
                self.came.drain(..used);
                return Some(frame);
            }
            let mut more = [0; 16 * 1024];
            match self.stream.read(&mut more) {
                Ok(count) if count > 0 => self.came.extend_from_slice(&more[..count]),
                _ => return None,
            }
        }
    }

    pub(crate) fn reply(&mut self) -> OwnedFrame {
        self.next().expect("a reply")
    }

    pub(crate) fn call(&mut self, words: &[&str]) -> OwnedFrame {
        self.send(words);
        self.reply()
    }

    /// Returns the reply as redis-cli would show it, in one line.
    pub(crate) fn text(&mut self, words: &[&str]) -> String {
        shown(&self.call(words))
    }

    pub(crate) fn half_close(&self) {
        self.stream.shutdown(Shutdown::Write).expect("a socket");
    }
}

/// Returns a request, as clients write it.
pub(crate) fn request(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

/// Returns a reply in one line.
pub(crate) fn shown(frame: &OwnedFrame) -> String {
    match frame {
        OwnedFrame::SimpleString(text) | OwnedFrame::BulkString(text) => {
            String::from_utf8_lossy(text).into_owned()
        }
        OwnedFrame::Error(text) => format!("-{text}"),
        OwnedFrame::Integer(number) => format!(":{number}"),
        OwnedFrame::Null => "nil".to_owned(),
        OwnedFrame::Array(frames) => {
            let all: Vec<String> = frames.iter().map(shown).collect();
            format!("[{}]", all.join(" "))
        }
    }
}
