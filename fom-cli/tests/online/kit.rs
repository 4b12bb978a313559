//! A program with an inspector, and the command beside it.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, ChildStdout, Command, Output, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use fom_durable::{DurableBuilderExt as _, journal::MemoryJournal};
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

#[fom(operation(Task), event(Heard))]
pub(crate) enum Doing {
    #[phase(start, sync, to(Hearing, Trying, Breaking, Done))]
    Choosing,
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
            Heard::Say(word) if word == "fail" => Err("it was told to".into()),
            Heard::Say(word) => {
                self.0 = word;
                Ok(())
            }
            Heard::Go => Ok(()),
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
    let limit = Duration::from_secs(180) * times;
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
    Runtime::builder()
        .localities(1)
        .pin(false)
        .clock(clock)
        .history(4)
}

/// A runtime with an inspector.
pub(crate) struct Served {
    pub(crate) runtime: Runtime,
    pub(crate) inspector: InspectorHandle,
}

impl Served {
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

    /// A program with one task of each kind. Three seconds have passed.
    pub(crate) fn busy(clock: &TestClock) -> Self {
        let runtime = one(clock).journal_with(MemoryJournal::new()).build();
        let served = Self::acting(runtime.unwrap());
        for (kind, key) in [("hear", "a"), ("hear", "a"), ("try", "b")] {
            drop(served.start(kind, key));
        }
        assert!(served.start("break", "c").wait().is_err());
        until("one is in quarantine", || {
            !served.fom(&["list", "--failed"]).stdout.is_empty()
        });
        served.quiet();
        clock.advance(secs(3));
        served
    }

    pub(crate) fn start(&self, kind: &str, key: &str) -> Handle<Task> {
        let task = self.runtime.submit(Task(kind.into())).key(key);
        task.queue().start().unwrap()
    }

    /// Waits until all foms wait.
    pub(crate) fn quiet(&self) {
        fom_runtime::extension::block_on(self.runtime.quiet());
    }

    /// The command, with the address and the token in its environment.
    pub(crate) fn command(&self) -> Command {
        let mut command = plain();
        command
            .env("FOM_INSPECT", self.inspector.url())
            .env("FOM_INSPECT_TOKEN", TOKEN);
        command
    }

    /// Runs the command.
    pub(crate) fn fom(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).output().unwrap()
    }

    /// Runs a command that succeeds, and returns its output.
    pub(crate) fn done(&self, arguments: &[&str]) -> String {
        let output = self.fom(arguments);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{arguments:?}: {}",
            errors(&output)
        );
        out(&output)
    }

    /// Runs a command that succeeds, and returns the lines of its output.
    pub(crate) fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let text = self.done(&[arguments, &["--json"]].concat());
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Runs a command that fails with this status and this message.
    pub(crate) fn fails(&self, arguments: &[&str], status: i32, message: &str) {
        failed(&self.fom(arguments), status, message);
    }
}

/// The command without a program.
pub(crate) fn plain() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fom"));
    command
        .env_remove("FOM_INSPECT")
        .env_remove("FOM_INSPECT_TOKEN")
        .env("USER", "ada");
    command
}

/// Checks that a command failed with this status and this message.
pub(crate) fn failed(output: &Output, status: i32, message: &str) {
    let errors = errors(output);
    assert_eq!(output.status.code(), Some(status), "{errors}");
    assert!(errors.contains(message), "{errors}");
    assert!(!errors.contains("panicked"), "{errors}");
}

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Waits until something is so, as another thread makes it.
pub(crate) fn until(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < secs(60), "not after a minute: {what}");
        thread::yield_now();
    }
}

/// A command that goes on until this is dropped.
pub(crate) struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    pub(crate) fn new(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Reads lines until one has this text, and returns that one. The test's limit ends a wait for a line that never comes.
    pub(crate) fn until(&mut self, text: &str) -> String {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            let length = self.lines.read_line(&mut line).unwrap();
            assert!(length > 0, "it ended before `{text}`: {all}");
            if line.contains(text) {
                return line;
            }
            all.push_str(&line);
        }
    }

    /// Waits for the end, and returns the status.
    pub(crate) fn status(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
