//! A runtime with an inspector, and a client that sends raw bytes.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use fom_inspect::{Inspector, InspectorHandle};
use fom_runtime::{Builder, machine::Retry, prelude::*, time::TestClock};
use serde_json::Value;

pub(crate) const TOKEN: &str = "correct horse battery staple";

const PATIENT: Retry = Retry::new(9, secs(60 * 60), secs(60 * 60));

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Waits for an event, fails for ever, fails at once, or is done.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Task(pub(crate) String);

/// A task of the tests.
#[fom(operation(Task), event(Heard))]
pub(crate) enum Doing {
    #[phase(start, sync, to(Hearing, Trying, Breaking, Done = "at once"))]
    Choosing,
    /// Waits for a word.
    #[phase(to(Done), on(Go, Say), within = "1h")]
    Hearing,
    #[phase(to(Done), retry(PATIENT))]
    Trying,
    #[phase(sync, to(Done))]
    Breaking,
    #[phase(end)]
    Done,
}

#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) enum Heard {
    Go,
    Say(String),
}

impl DoingTransitions for Task {
    fn choosing(&mut self, _: &mut Cx<'_, Heard>) -> Result<DoingAfterChoosing, BoxError> {
        Ok(match self.0.as_str() {
            "hear" => DoingAfterChoosing::Hearing,
            "try" => DoingAfterChoosing::Trying,
            "break" => DoingAfterChoosing::Breaking,
            _ => DoingAfterChoosing::Done,
        })
    }

    async fn hearing(&mut self, cx: &mut Cx<'_, Heard>) -> Result<(), BoxError> {
        match cx.event().await {
            Heard::Go => Ok(()),
            Heard::Say(word) => {
                self.0 = word;
                Ok(())
            }
        }
    }

    async fn trying(&mut self, _: &mut Cx<'_, Heard>) -> Result<(), BoxError> {
        Err("no luck".into())
    }

    fn breaking(&mut self, _: &mut Cx<'_, Heard>) -> Result<(), BoxError> {
        Err("broken".into())
    }
}

/// Runs a test in its own thread, and fails it when it hangs.
pub(crate) fn limited(test: impl FnOnce() + Send + 'static) {
    let times = std::env::var("FOM_TEST_PATIENCE").map_or(1, |times| times.parse().unwrap());
    let limit = Duration::from_secs(120) * times;
    let (done, ended) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        let _done = done;
        test();
    });
    if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
        panic!("the test hangs: not done after {limit:?}");
    }
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// A runtime of one locality on a test's clock, before it is built.
pub(crate) fn one(clock: &TestClock) -> Builder {
    Runtime::builder().localities(1).pin(false).clock(clock)
}

/// A runtime with an inspector.
pub(crate) struct Served {
    pub(crate) runtime: Runtime,
    pub(crate) inspector: InspectorHandle,
}

impl Served {
    /// Starts an inspector without settings.
    pub(crate) fn new(runtime: Runtime) -> Self {
        Self::with(runtime, |inspector| inspector)
    }

    pub(crate) fn with(runtime: Runtime, set: impl FnOnce(Inspector) -> Inspector) -> Self {
        let inspector = set(Inspector::new(&runtime)).start().unwrap();
        Self { runtime, inspector }
    }

    /// Starts an inspector that allows all actions.
    pub(crate) fn acting(runtime: Runtime) -> Self {
        Self::with(runtime, |inspector| {
            inspector
                .actions(TOKEN)
                .persistent::<Task>()
                .event::<Task>()
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.inspector.address().unwrap()
    }

    pub(crate) fn start(&self, kind: &str, key: &str) -> Handle<Task> {
        let task = self.runtime.submit(Task(kind.into())).key(key);
        task.queue().start().unwrap()
    }

    /// Waits until all foms wait.
    pub(crate) fn quiet(&self) {
        let tokio = tokio::runtime::Builder::new_current_thread();
        let tokio = { tokio }.build().unwrap();
        tokio.block_on(self.runtime.quiet());
    }

    /// Checks that the program goes on: an operation runs, and the inspector answers.
    pub(crate) fn goes_on(&self) {
        self.start("done", "it goes on").wait().unwrap();
        assert_eq!(self.get("/api/v1/summary").status, 200);
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.request(&format!("GET {path} HTTP/1.1"), "", "")
    }

    /// Reads a resource.
    pub(crate) fn json(&self, path: &str) -> Value {
        let answer = self.get(&format!("/api/v1/{path}"));
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.json()
    }

    pub(crate) fn act(&self, body: &Value) -> Answer {
        self.act_with(TOKEN, &body.to_string())
    }

    pub(crate) fn act_with(&self, token: &str, body: &str) -> Answer {
        let headers =
            format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\n");
        self.request("POST /api/v1/actions HTTP/1.1", &headers, body)
    }

    /// Sends a request from this host, and reads the answer.
    pub(crate) fn request(&self, line: &str, headers: &str, body: &str) -> Answer {
        let (host, length) = (self.address(), body.len());
        let bytes = format!(
            "{line}\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        );
        self.raw(bytes.as_bytes())
    }

    /// Sends bytes, and reads the answer until its end.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        // The server may close before it has read all.
        let _ = stream.write_all(bytes);
        Answer::read(&mut stream)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(secs(60))).unwrap();
        stream
    }
}

/// Waits until something is so, as another thread makes it.
pub(crate) fn until(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < secs(60), "not after a minute: {what}");
        thread::yield_now();
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// Reads an answer on a connection that is closed behind it.
    pub(crate) fn read(from: &mut impl std::io::Read) -> Self {
        let mut bytes = Vec::new();
        let ended = from.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let parts = text.split_once("\r\n\r\n");
        let (head, body) = parts.unwrap_or_else(|| panic!("no answer: {ended:?} {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self {
            status,
            head: head.to_lowercase(),
            body: body.to_owned(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Returns the code of an error, and checks its shape.
    pub(crate) fn code(&self) -> String {
        let error = &self.json()["error"];
        assert_eq!(error["status"], self.status, "{error}");
        assert!(error["message"].is_string() && error["allowed"].is_array());
        error["code"].as_str().unwrap().to_owned()
    }

    pub(crate) fn is(&self, status: u16, code: &str) {
        assert_eq!(
            (self.status, self.code().as_str()),
            (status, code),
            "{}",
            self.body
        );
    }
}

/// Returns the runtime of most tests.
pub(crate) fn runtime() -> Runtime {
    Runtime::builder()
        .localities(1)
        .pin(false)
        .observe()
        .build()
        .unwrap()
}

/// Reads what comes until a text is there.
pub(crate) fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let (mut all, mut part) = (String::new(), [0; 4096]);
    while !all.contains(text) {
        let length = stream.read(&mut part).unwrap();
        assert!(length > 0, "closed before `{text}`: {all}");
        all.push_str(&String::from_utf8_lossy(&part[..length]));
    }
    all
}
