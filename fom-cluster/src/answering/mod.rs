//! The owner of a slot answers calls by key. A call that is repeated, because its answer was lost, runs once.

mod table;

use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll};

use fom_protocol::caught;
use fom_runtime::{
    Builder, Cx, FomId, Runtime,
    error::{BoxError, RefusedReason},
    extension::RuntimeState,
    fom,
};

use crate::{
    answers::{Answers, Asked, MOST},
    call::{Blob, Call, Name, Reply},
    node::{Here, Node},
    numbers::Ranges,
};
use table::{Begun, Table};

/// Adds what this file needs to a runtime.
pub(crate) fn set_up(builder: Builder) -> Builder {
    builder.resource(Arc::new(Table::default()))
}

/// Answers a call.
pub(crate) async fn answer(node: &Node, runtime: &Runtime, of: &Name, call: Call) -> Reply {
    let Some(answers) = node.registry.answers(&of.operation) else {
        let name = &of.operation;
        return Reply::Failed(format!("the owner does not answer calls of `{name}`"));
    };
    let term = runtime.resource::<Here>().map_or(0, Here::term);
    let (Some(key), Some(table)) = (call.key, runtime.resource::<Arc<Table>>()) else {
        return Reply::Failed("a call has no key".to_owned());
    };
    let (begun, dropped) = table.begin(&call.caller, call.number, &call.done);
    cancel(runtime, dropped);
    let answered = match begun {
        Begun::Answered(reply) => return reply,
        Begun::Busy => return Reply::Busy,
        Begun::Waits(answered) => answered,
        Begun::Runs(answered) => {
            let asked = Asked {
                runtime: runtime.detached(),
                term,
                key,
                body: call.body.0,
            };
            let (caller, number) = (call.caller.clone(), call.number);
            let operation = Answer {
                answers: Arc::clone(answers),
                asked: Some(asked),
                call: Some(CallId(Arc::clone(table), caller, number)),
            };
            match runtime.submit(operation).detach() {
                Ok(fom) => cancel(runtime, table.started(&call.caller, call.number, fom)),
                // Its drop has forgotten the call.
                Err(refused) => {
                    return match refused.reason() {
                        RefusedReason::Full => Reply::Busy,
                        _ => Reply::Moved,
                    };
                }
            }
            answered
        }
    };
    // Without an answer, the runtime has ended.
    answered.await.unwrap_or(Reply::Moved)
}

/// Ends the calls of this caller that are done and run.
pub(crate) fn done(runtime: &Runtime, caller: &str, done: &Ranges) -> Reply {
    if let Some(table) = runtime.resource::<Arc<Table>>() {
        cancel(runtime, table.done(caller, done));
    }
    Reply::Done
}

fn cancel(runtime: &Runtime, foms: impl IntoIterator<Item = FomId>) {
    for fom in foms {
        // It may have ended.
        runtime.cancel(fom);
    }
}

/// The duty to answer one call. If dropped, the call may run again.
struct CallId(Arc<Table>, String, u64);

impl CallId {
    fn answer(self, reply: Reply) {
        self.0.answer(&self.1, self.2, reply);
    }
}

impl Drop for CallId {
    fn drop(&mut self) {
        // Nothing, if it is answered.
        self.0.forget(&self.1, self.2);
    }
}

/// Answers one call.
struct Answer {
    answers: Arc<dyn Answers>,
    asked: Option<Asked>,
    call: Option<CallId>,
}

#[fom(operation(Answer), transient)]
enum Answering {
    #[phase(start, to(Answered), hung = "never")]
    Run,
    #[phase(end)]
    Answered,
}

impl AnsweringTransitions for Answer {
    async fn run(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        let (Some(asked), Some(call)) = (self.asked.take(), self.call.take()) else {
            return Ok(());
        };
        let runtime = asked.runtime.clone();
        let answer = match caught(|| self.answers.answer(asked)) {
            Ok(answer) => answer,
            Err(panic) => return panicked(call, panic),
        };
        let mut answer = pin!(answer);
        let answered = poll_fn(|cx| match caught(|| answer.as_mut().poll(cx)) {
            Ok(Poll::Ready(answer)) => Poll::Ready(Ok(answer)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(panic) => Poll::Ready(Err(panic)),
        });
        match answered.await {
            // What it called may have ended with the runtime. The next owner answers.
            Ok(_) if runtime.extension().state() != RuntimeState::Open => Ok(()),
            Ok(answer) => {
                call.answer(match answer.len() <= MOST {
                    true => Reply::Answer(Blob(answer)),
                    false => {
                        let length = answer.len();
                        Reply::Failed(format!(
                            "the answer has {length} bytes; the most are {MOST}"
                        ))
                    }
                });
                Ok(())
            }
            Err(panic) => panicked(call, panic),
        }
    }
}

fn panicked(call: CallId, panic: String) -> Result<(), BoxError> {
    let why = format!("the call panicked: {panic}");
    call.answer(Reply::Failed(why.clone()));
    Err(why.into())
}
