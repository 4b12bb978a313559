//! Foms that wait for an event, in a plain function and in an async one.

use std::{convert::Infallible, hint::black_box, marker::PhantomData};

use fom_runtime::{
    __private::{AsyncOperation, At},
    Cx, FomRef, Operation, fom,
    submission::Placement,
};
use kit::{Figures, One, Tally, peers::Flight};

use crate::{BATCH, Load, State, WORKERS, measure, state};

enum Go {
    Go,
}

/// The tally of a locality's ended operations.
struct Ended(&'static Tally);

fn ended<E>(cx: &mut Cx<'_, E>, state: &State) {
    black_box(state.iter().sum::<u64>());
    cx.local(|ended: &mut Ended| ended.0.add_alone());
}

struct Plain(State);

#[fom(operation(Plain), event(Go), error(Infallible), transient)]
enum Plainly {
    #[phase(start, sync, to(Wait))]
    Begin,
    #[phase(sync, on(Go), to(Done))]
    Wait,
    #[phase(end)]
    Done,
}

impl PlainlyTransitions for Plain {
    fn begin(&mut self, cx: &mut Cx<'_, Go>) -> Result<(), Infallible> {
        cx.local(|flight: &mut Flight| flight.done(0));
        Ok(())
    }

    fn wait(&mut self, cx: &mut Cx<'_, Go>, Go::Go: Go) -> Result<PlainlyAfterWait, Infallible> {
        ended(cx, &self.0);
        Ok(PlainlyAfterWait::Done)
    }
}

struct Async(State);

#[fom(operation(Async), event(Go), error(Infallible), transient)]
enum Asynchronously {
    #[phase(start, to(Done), on(Go))]
    Wait,
    #[phase(end)]
    Done,
}

impl AsynchronouslyTransitions for Async {
    async fn wait(&mut self, cx: &mut Cx<'_, Go>) -> Result<(), Infallible> {
        cx.local(|flight: &mut Flight| flight.done(0));
        let Go::Go = cx.event().await;
        ended(cx, &self.0);
        Ok(())
    }
}

/// One of the two operations.
trait Waits: Operation<Event = Go> {
    fn new(state: State) -> Self;
}

impl Waits for Plain {
    fn new(state: State) -> Self {
        Self(state)
    }
}

impl Waits for Async {
    fn new(state: State) -> Self {
        Self(state)
    }
}

/// The reference that is kept to wake each operation.
type Handle<O> = FomRef<O>;

/// Starts all operations of one locality.
struct Generator<O: Waits> {
    load: Load<Handle<O>>,
    operation: PhantomData<O>,
}

#[fom(
    operation("Generator<O>"),
    generics("O: Waits"),
    error(Infallible),
    transient
)]
enum Generating {
    #[phase(start, to(Done))]
    Generate,
    #[phase(end)]
    Done,
}

impl<O: Waits> GeneratingTransitions for Generator<O> {
    async fn generate(&mut self, cx: &mut Cx<'_>) -> Result<(), Infallible> {
        let mut handles = Vec::with_capacity(self.load.each);
        while handles.len() < self.load.each {
            let batch = BATCH.min(self.load.each - handles.len());
            cx.local(|flight: &mut Flight| flight.add(batch));
            for _ in 0..batch {
                let operation = O::new(state(handles.len() as u64));
                let started = cx.submit(operation).start().expect("there is room");
                handles.push(started.fom().clone());
            }
            Flight::at_most(cx, 0).await;
        }
        self.load
            .parked
            .send((cx.locality(), handles))
            .unwrap_or_else(|_| unreachable!("main waits"));
        Ok(())
    }
}

pub(crate) fn run(one: &One) -> Figures {
    park::<Plain>(one)
}

pub(crate) fn run_async(one: &One) -> Figures {
    park::<Async>(one).with("future_bytes", future_size(Async::step) as f64)
}

/// Returns the size of the future that `step` makes, without making one.
fn future_size<'a, 'b: 'a, O, F>(
    _: impl FnOnce(&'a mut O, At<'a, 'b, O::Phase, O::Event>) -> F,
) -> usize
where
    O: AsyncOperation + 'a,
    O::Event: 'a,
{
    size_of::<F>()
}

fn park<O: Waits>(one: &One) -> Figures {
    let start = |load: Load<Handle<O>>| {
        let tallies = load.ended;
        let runtime = kit::peers::fom(WORKERS)
            .locality_data(move |n| Ok::<_, Infallible>(Ended(&tallies[n])))
            .build()
            .expect("a runtime");
        for n in 0..WORKERS {
            let generator = Generator {
                load: load.clone(),
                operation: PhantomData,
            };
            let started = runtime
                .submit(generator)
                .place(Placement::Locality(n))
                .detach();
            started.expect("there is room");
        }
        std::mem::forget(runtime);
    };
    measure(one, start, |fom: Handle<O>| {
        assert!(fom.send(Go::Go).is_ok(), "it waits");
    })
}
