//! Two operations that know nothing of any layer, and one layer that both are put into.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test binary uses its own part of it"
)]

use fom_runtime::prelude::*;

use crate::kit::Log;

#[derive(Debug, PartialEq)]
pub struct ReadError(pub &'static str);

/// Reads what the name of a thing is: an async machine.
pub struct Read {
    pub log: Log,
    pub name: &'static str,
}

#[derive(Debug)]
#[fom(operation(Read), error(ReadError), transient)]
pub enum Reading {
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

/// What a layer's suffix asks of what it stands around.
pub trait Answer: Operation {
    fn answer(end: &Self::Phase) -> String;
}

/// What every request goes through.
pub struct Guarded<R> {
    pub log: Log,
    pub token: &'static str,
    pub request: R,
    pub answer: String,
}

impl<R> Guarded<R> {
    pub fn new(log: &Log, token: &'static str, request: R) -> Self {
        Self {
            log: log.clone(),
            token,
            request,
            answer: String::new(),
        }
    }
}

#[derive(Debug, PartialEq)]
pub struct ServerError(pub &'static str);

#[fom(operation(Guarded<R>), around(R), error(ServerError), transient)]
pub enum Standard<R: Answer> {
    #[phase(start, to(Authorise, Denied))]
    Authenticate,
    #[phase(to(Serve, Denied), sync)]
    Authorise,
    /// The phases of the request itself.
    #[phase(inner(request), to(Reply))]
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
