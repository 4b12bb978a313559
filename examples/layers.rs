//! The work around every request of a server, written once. The layer's phases are authenticate, authorise, acquire,
//! reply and account. They stand around two requests that know nothing of them. A failure anywhere leads to an answer.
//!
//! `cargo run --example layers`

use std::{collections::BTreeMap, sync::Mutex};

use fom_runtime::{machine::Layered, prelude::*};

/// The files of the server, and what it has counted.
#[derive(Default)]
struct Server {
    files: Mutex<BTreeMap<&'static str, String>>,
    accounts: Mutex<BTreeMap<&'static str, u32>>,
}

/// Reads a file. It also runs by itself.
struct Read {
    file: &'static str,
}

#[fom(operation(Read), transient)]
enum Reading {
    #[phase(start, sync, to(Found, Missing))]
    Look,
    #[phase(end)]
    Found { text: String },
    #[phase(end, failure)]
    Missing,
}

impl ReadingTransitions for Read {
    fn look(&mut self, cx: &mut Cx<'_>) -> Result<ReadingAfterLook, BoxError> {
        let files = cx.resource::<Server>().files.lock();
        Ok(
            match files.map_err(|_| "the files are broken")?.get(self.file) {
                Some(text) => ReadingAfterLook::Found { text: text.clone() },
                None => ReadingAfterLook::Missing,
            },
        )
    }
}

/// Writes a file, in two phases.
struct Write {
    file: &'static str,
    text: String,
}

#[fom(operation(Write), transient)]
enum Writing {
    #[phase(start, to(Store))]
    Check,
    #[phase(blocking, to(Stored))]
    Store,
    #[phase(end)]
    Stored,
}

impl WritingTransitions for Write {
    async fn check(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        match self.text.as_str() {
            "" => Err("nothing to write".into()),
            _ => Ok(()),
        }
    }

    fn store(&mut self, cx: &mut BlockingCx<'_>) -> Result<(), BoxError> {
        let files = cx.resource::<Server>().files.lock();
        files
            .map_err(|_| "the files are broken")?
            .insert(self.file, self.text.clone());
        Ok(())
    }
}

/// What the layer asks of a request. Most requests answer alike and use the defaults; a request overrides the rest.
trait Request: Operation {
    fn may(&self, user: &str) -> bool {
        let _ = user;
        true
    }

    fn answer(end: &Self::Phase) -> String;
}

impl Request for Read {
    fn answer(end: &Reading) -> String {
        match end {
            Reading::Found { text } => format!("200 {text}"),
            _ => "404".to_owned(),
        }
    }
}

impl Request for Write {
    fn may(&self, user: &str) -> bool {
        user == "ada"
    }

    fn answer(_: &Writing) -> String {
        "201".to_owned()
    }
}

/// A request with the state that the layer keeps.
struct Guarded<R> {
    user: &'static str,
    request: R,
    answer: String,
}

/// The phases of every request.
#[fom(operation(Guarded<R>), around(R), transient)]
enum Standard<R: Request> {
    /// This deadline covers all later phases up to the answer.
    #[phase(
        start,
        to(Authorise, Reply),
        failed(Reply),
        within = "2s",
        keep(Authorise, Acquire, Serve)
    )]
    Authenticate,
    #[phase(sync, to(Acquire, Reply))]
    Authorise,
    #[phase(to(Serve), failed(Reply), retry = "2, 10ms..20ms")]
    Acquire,
    /// The phases of the request itself.
    #[phase(inner(request), to(Reply), failed(Reply))]
    Serve { phase: R::Phase },
    #[phase(to(Account))]
    Reply { answer: String },
    #[phase(sync, to(Done))]
    Account,
    #[phase(end)]
    Done,
}

impl<R: Request> StandardTransitions<R> for Guarded<R> {
    async fn authenticate(
        &mut self,
        _: &mut Cx<'_, R::Event>,
    ) -> Result<StandardAfterAuthenticate, BoxError> {
        Ok(match self.user {
            "" => reply("401"),
            _ => StandardAfterAuthenticate::Authorise,
        })
    }

    async fn authenticate_failed(
        &mut self,
        _: &mut Cx<'_, R::Event>,
        cause: Cause<BoxError>,
    ) -> Result<StandardAfterAuthenticateFailed, BoxError> {
        let answer = format!("500 {cause}");
        Ok(StandardAfterAuthenticateFailed::Reply { answer })
    }

    fn authorise(&mut self, _: &mut Cx<'_, R::Event>) -> Result<StandardAfterAuthorise, BoxError> {
        Ok(if self.request.may(self.user) {
            StandardAfterAuthorise::Acquire
        } else {
            let answer = "403".to_owned();
            StandardAfterAuthorise::Reply { answer }
        })
    }

    async fn acquire(&mut self, _: &mut Cx<'_, R::Event>) -> Result<(), BoxError> {
        match self.user {
            "greedy" => Err("nothing is left".into()),
            _ => Ok(()),
        }
    }

    async fn acquire_failed(
        &mut self,
        _: &mut Cx<'_, R::Event>,
        cause: Cause<BoxError>,
    ) -> Result<StandardAfterAcquireFailed, BoxError> {
        let answer = format!("503 {cause}");
        Ok(StandardAfterAcquireFailed::Reply { answer })
    }

    /// Runs where the request has ended.
    async fn serve(
        &mut self,
        _: &mut Cx<'_, R::Event>,
        phase: &mut R::Phase,
    ) -> Result<StandardAfterServe, BoxError> {
        let answer = R::answer(phase);
        Ok(StandardAfterServe::Reply { answer })
    }

    /// Runs where the request has failed.
    async fn serve_failed(
        &mut self,
        _: &mut Cx<'_, R::Event>,
        phase: &mut R::Phase,
        cause: Cause<Layered<BoxError, R::Error>>,
    ) -> Result<StandardAfterServeFailed, BoxError> {
        let answer = format!("500 {} in {:?}", cause.name(), R::kind(phase));
        Ok(StandardAfterServeFailed::Reply { answer })
    }

    async fn reply(
        &mut self,
        _: &mut Cx<'_, R::Event>,
        answer: &mut String,
    ) -> Result<(), BoxError> {
        self.answer = std::mem::take(answer);
        Ok(())
    }

    fn account(&mut self, cx: &mut Cx<'_, R::Event>) -> Result<(), BoxError> {
        let accounts = cx.resource::<Server>().accounts.lock();
        *accounts
            .map_err(|_| "the accounts are broken")?
            .entry(self.user)
            .or_default() += 1;
        Ok(())
    }
}

fn reply(answer: &str) -> StandardAfterAuthenticate {
    let answer = answer.to_owned();
    StandardAfterAuthenticate::Reply { answer }
}

/// Sends one request through the layer.
fn ask<R: Request>(runtime: &Runtime, user: &'static str, request: R) -> Result<String, BoxError> {
    let guarded = Guarded {
        user,
        request,
        answer: String::new(),
    };
    let ended = runtime
        .submit(guarded)
        .start()
        .map_err(|refused| refused.to_string())?
        .wait();
    let ended = ended.map_err(|failure| failure.cause.name())?;
    Ok(ended.operation.answer)
}

pub(crate) fn main() -> Result<(), BoxError> {
    let runtime = Runtime::builder().resource(Server::default()).build()?;
    let write = |text: &str| Write {
        file: "notes",
        text: text.to_owned(),
    };
    let answers = [
        ask(&runtime, "ada", write("layers stand around requests"))?,
        ask(&runtime, "bob", Read { file: "notes" })?,
        ask(&runtime, "bob", Read { file: "other" })?,
        ask(&runtime, "bob", write("no"))?,
        ask(&runtime, "", Read { file: "notes" })?,
        ask(&runtime, "greedy", Read { file: "notes" })?,
        ask(&runtime, "ada", write(""))?,
    ];
    for answer in &answers {
        println!("{answer}");
    }
    assert_eq!(
        answers,
        [
            "201",
            "200 layers stand around requests",
            "404",
            "403",
            "401",
            "503 nothing is left",
            "500 error in Check",
        ]
    );
    // Both machines as one, as they run.
    print!("\n{}", graph().drawing());
    // The request also runs without the layer.
    let alone = runtime.submit(Read { file: "notes" }).start()?.wait()?;
    assert!(matches!(alone.end, ReadingEnd::Found { .. }));
    Ok(())
}

/// A request in the layer. The book has a picture of it.
pub(crate) fn graph() -> &'static fom_runtime::machine::Graph {
    Guarded::<Write>::GRAPH
}
