//! Foms that call three times, with a phase for each call.

use std::convert::Infallible;

use fom_runtime::{
    Cx, Operation, Runtime, context::Reply as ToFom, error::BoxError, fom, submission::EventSender,
};
use kit::peers::submit_here;

use crate::{
    CALLS, Load,
    service::{Answer, Reply, Request, Service, service},
};

impl Reply for ToFom<Answer> {
    fn reply(self, answer: Answer) {
        assert!(self.send(answer).is_ok(), "the caller waits for it");
    }
}

struct Chain {
    x: u64,
    load: Load,
}

#[fom(operation(Chain), transient)]
enum Chaining {
    #[phase(start, to(Second))]
    First,
    #[phase(to(Third))]
    Second,
    #[phase(to(Done))]
    Third,
    #[phase(end)]
    Done,
}

impl Chain {
    async fn call(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let x = self.x;
        let answer = cx.call(|service: &Service<ToFom<Answer>>, to| {
            service.send(Request { x, to }).expect("the service runs");
        });
        self.x = answer.await?.arrived(self.load.wakes);
        Ok(())
    }
}

impl ChainingTransitions for Chain {
    async fn first(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.call(cx).await
    }

    async fn second(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.call(cx).await
    }

    async fn third(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.call(cx).await?;
        let load = self.load;
        load.ended.add_alone();
        submit_here(cx, Self { x: self.x, load });
        Ok(())
    }
}

/// The same without a future: the answers are events.
struct Evented {
    x: u64,
    left: u32,
    load: Load,
}

enum Answered {
    Answer(Answer),
}

impl Reply for EventSender<Answered> {
    fn reply(self, answer: Answer) {
        assert!(
            self.send(Answered::Answer(answer)).is_ok(),
            "it waits for it"
        );
    }
}

#[fom(operation(Evented), event(Answered), error(Infallible), transient)]
enum Eventing {
    #[phase(start, sync, to(Wait))]
    Begin,
    #[phase(sync, on(Answer), to(Done))]
    Wait,
    #[phase(end)]
    Done,
}

impl Evented {
    fn call(&self, cx: &mut Cx<'_, Answered>) {
        let service: &Service<EventSender<Answered>> = cx.resource();
        service
            .send(Request {
                x: self.x,
                to: cx.address(),
            })
            .expect("the service runs");
    }
}

impl EventingTransitions for Evented {
    fn begin(&mut self, cx: &mut Cx<'_, Answered>) -> Result<(), Infallible> {
        self.call(cx);
        Ok(())
    }

    fn wait(
        &mut self,
        cx: &mut Cx<'_, Answered>,
        event: Answered,
    ) -> Result<EventingAfterWait, Infallible> {
        let Answered::Answer(answer) = event;
        self.x = answer.arrived(self.load.wakes);
        self.left -= 1;
        if self.left > 0 {
            self.call(cx);
            return Ok(EventingAfterWait::Stay);
        }
        let load = self.load;
        load.ended.add_alone();
        submit_here(
            cx,
            Self {
                x: self.x,
                left: CALLS,
                load,
            },
        );
        Ok(EventingAfterWait::Done)
    }
}

pub(crate) fn start(load: Load, peer: &str) {
    match peer {
        "fom:events" => submit_all(service::<EventSender<Answered>>(), load, |x| Evented {
            x,
            left: CALLS,
            load,
        }),
        _ => submit_all(service::<ToFom<Answer>>(), load, |x| Chain { x, load }),
    }
}

fn submit_all<R: Reply, O: Operation>(service: Service<R>, load: Load, new: impl Fn(u64) -> O) {
    let runtime: Runtime = kit::peers::fom(1)
        .resource(service)
        .build()
        .expect("a runtime");
    for x in 0..load.flying as u64 {
        runtime.submit(new(x)).detach().expect("there is room");
    }
    std::mem::forget(runtime);
}
