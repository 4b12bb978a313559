//! Two operations that know nothing of any layer, and one layer that goes around both.

use fom_runtime::{machine::Layered, prelude::*};

use std::panic::resume_unwind;

use crate::kit::Log;

#[derive(Debug, PartialEq)]
pub(crate) struct ReadError(pub(crate) &'static str);

/// Reads the name of a thing: an async machine.
pub(crate) struct Read {
    pub(crate) log: Log,
    pub(crate) name: &'static str,
}

#[fom(operation(Read), error(ReadError), transient)]
#[derive(Debug)]
pub(crate) enum Reading {
    #[phase(start, to(Fetch, Missing))]
    Look,
    #[phase(to(Done))]
    Fetch { place: usize },
    #[phase(end)]
    Done { text: String },
    #[phase(end, failure)]
    Missing,
}

impl ReadingTransitions for Read {
    async fn look(&mut self, _: &mut Cx<'_>) -> Result<ReadingAfterLook, ReadError> {
        self.log.put("look");
        match self.name {
            "" => Ok(ReadingAfterLook::Missing),
            "broken" => Err(ReadError("broken")),
            name => Ok(ReadingAfterLook::Fetch { place: name.len() }),
        }
    }

    async fn fetch(
        &mut self,
        _: &mut Cx<'_>,
        place: &mut usize,
    ) -> Result<ReadingAfterFetch, ReadError> {
        self.log.put("fetch");
        tokio::task::yield_now().await;
        Ok(ReadingAfterFetch::Done {
            text: format!("{} at {place}", self.name),
        })
    }
}

impl Answer for Read {
    fn answer(end: &Reading) -> String {
        match end {
            Reading::Done { text } => text.clone(),
            other => format!("{other:?}"),
        }
    }
}

/// The requirement of a layer's suffix on the inner operation.
pub(crate) trait Answer: Operation {
    fn answer(end: &Self::Phase) -> String;
}

/// The layer around every request.
pub(crate) struct Guarded<R> {
    pub(crate) log: Log,
    pub(crate) token: &'static str,
    pub(crate) request: R,
    pub(crate) answer: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Put {
    Part(&'static str),
    End,
    Break,
}

/// Takes parts until the end: a machine without futures, with events, deadlines, attempts and a failure of its own.
pub(crate) struct Write {
    pub(crate) log: Log,
    pub(crate) text: String,
    pub(crate) disk: Disk,
}

/// What the disk does on a write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Disk {
    Well,
    /// Full for this many attempts.
    Full(u32),
    Panics,
}

#[fom(operation(Write), error(ReadError), event(Put), transient)]
#[derive(Debug)]
pub(crate) enum Writing {
    #[phase(start, sync, to(Take))]
    Open,
    #[phase(sync, on(Part, End, Break), to(Store), within = "10s", late)]
    Take,
    #[phase(blocking, to(Stored), retry = "2, 1s..1s", failed(Lost))]
    Store,
    #[phase(end)]
    Stored,
    #[phase(end, failure)]
    Lost {
        #[allow(dead_code, reason = "a test reads it through `Debug`")]
        why: &'static str,
    },
}

impl WritingTransitions for Write {
    fn open(&mut self, _: &mut Cx<'_, Put>) -> Result<(), ReadError> {
        self.log.put("open");
        Ok(())
    }

    fn take(&mut self, _: &mut Cx<'_, Put>, event: Put) -> Result<WritingAfterTake, ReadError> {
        match event {
            Put::Part(part) => {
                self.text.push_str(part);
                Ok(WritingAfterTake::Stay)
            }
            Put::End => Ok(WritingAfterTake::Store),
            Put::Break => Err(ReadError("broken off")),
        }
    }

    fn take_late(&mut self, _: &mut Cx<'_, Put>) -> Result<WritingAfterTake, ReadError> {
        self.log.put("late");
        self.text.push('…');
        Ok(WritingAfterTake::Store)
    }

    fn store(&mut self, cx: &mut BlockingCx<'_>) -> Result<(), ReadError> {
        self.log.put(format_args!("store {}", self.text));
        match self.disk {
            Disk::Panics => resume_unwind(Box::new("no disk")),
            Disk::Full(times) if cx.attempt() < times => Err(ReadError("full")),
            _ => Ok(()),
        }
    }

    fn store_failed(
        &mut self,
        _: &mut Cx<'_, Put>,
        cause: Cause<ReadError>,
    ) -> Result<WritingAfterStoreFailed, ReadError> {
        self.log.put(format_args!("not stored: {}", cause.name()));
        match cause {
            Cause::Error(ReadError(why)) => Ok(WritingAfterStoreFailed::Lost { why }),
            _ => Err(ReadError("a panic of the disk")),
        }
    }
}

impl Answer for Write {
    fn answer(end: &Writing) -> String {
        format!("{end:?}")
    }
}

impl<R> Guarded<R> {
    pub(crate) fn new(log: &Log, token: &'static str, request: R) -> Self {
        Self {
            log: log.clone(),
            token,
            request,
            answer: String::new(),
        }
    }
}

#[derive(Debug, PartialEq)]
pub(crate) struct ServerError(pub(crate) &'static str);

#[fom(operation(Guarded<R>), around(R), error(ServerError), transient)]
pub(crate) enum Standard<R: Answer> {
    #[phase(start, to(Authorise, Denied))]
    Authenticate,
    #[phase(to(Serve, Denied), sync)]
    Authorise,
    /// The phases of the request itself.
    #[phase(inner(request), to(Reply), failed(Reply))]
    Serve { phase: R::Phase },
    #[phase(to(Done))]
    Reply { text: String },
    #[phase(end)]
    Done,
    #[phase(end, failure)]
    Denied { why: &'static str },
}

impl<R: Answer> StandardTransitions<R> for Guarded<R> {
    async fn authenticate(
        &mut self,
        _: &mut Cx<'_, R::Event>,
    ) -> Result<StandardAfterAuthenticate, ServerError> {
        self.log.put("authenticate");
        Ok(match self.token {
            "nobody" => StandardAfterAuthenticate::Denied { why: "who?" },
            _ => StandardAfterAuthenticate::Authorise,
        })
    }

    fn authorise(
        &mut self,
        _: &mut Cx<'_, R::Event>,
    ) -> Result<StandardAfterAuthorise, ServerError> {
        self.log.put("authorise");
        match self.token {
            "guest" => Ok(StandardAfterAuthorise::Denied { why: "no" }),
            "broken" => Err(ServerError("no list")),
            _ => Ok(StandardAfterAuthorise::Serve),
        }
    }

    async fn serve(
        &mut self,
        _: &mut Cx<'_, R::Event>,
        phase: &mut R::Phase,
    ) -> Result<StandardAfterServe, ServerError> {
        self.log.put("served");
        Ok(StandardAfterServe::Reply {
            text: R::answer(phase),
        })
    }

    async fn serve_failed(
        &mut self,
        _: &mut Cx<'_, R::Event>,
        _: &mut R::Phase,
        cause: Cause<Layered<ServerError, R::Error>>,
    ) -> Result<StandardAfterServeFailed, ServerError> {
        self.log.put(format_args!("failed: {}", cause.name()));
        Ok(StandardAfterServeFailed::Reply {
            text: format!("500: {}", cause.name()),
        })
    }

    async fn reply(
        &mut self,
        _: &mut Cx<'_, R::Event>,
        text: &mut String,
    ) -> Result<(), ServerError> {
        self.log.put("reply");
        self.answer = std::mem::take(text);
        Ok(())
    }
}
