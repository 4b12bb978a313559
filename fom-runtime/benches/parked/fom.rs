//! Foms that wait for an event, in a plain function and in an async one.

use std::{convert::Infallible, hint::black_box, marker::PhantomData};

use fom_runtime::{
    __private::{AsyncOperation, At},
    Cx, FomRef, Operation, fom,
    submission::Placement,
};
use kit::{Figures, One, Tally, peers::Flight};

use crate::{BATCH, Load, Message, State, WORKERS, measure, state};

/// The tally of a locality's ended operations.
struct Ended(&'static Tally);

fn ended<E>(cx: &mut Cx<'_, E>, state: &State, event: impl Message) {
    black_box(state.iter().sum::<u64>() + event.value());
    cx.local(|ended: &mut Ended| ended.0.add_alone());
}

/// The machines for one type of data. The type of an event has no generic parameters.
macro_rules! machines {
    ($name:ident, $message:ty) => {
        mod $name {
            use super::*;

            pub(super) enum Go {
                Go($message),
            }

            impl From<$message> for Go {
                fn from(message: $message) -> Self {
                    Self::Go(message)
                }
            }

            pub(super) struct Plain(State);

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

                fn wait(
                    &mut self,
                    cx: &mut Cx<'_, Go>,
                    Go::Go(event): Go,
                ) -> Result<PlainlyAfterWait, Infallible> {
                    ended(cx, &self.0, event);
                    Ok(PlainlyAfterWait::Done)
                }
            }

            pub(super) struct Async(State);

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
                    let Go::Go(event) = cx.event().await;
                    ended(cx, &self.0, event);
                    Ok(())
                }
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
        }
    };
}

machines!(without_data, ());
machines!(with_data, [u64; 4]);

/// One of the two operations.
pub(crate) trait Waits: Operation {
    fn new(state: State) -> Self;
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
    match (&*one.case, &*one.peer) {
        ("1M", "fom") => park::<without_data::Plain, ()>(one),
        ("1M", _) => {
            let future = future_size(without_data::Async::step);
            park::<without_data::Async, ()>(one).with("future_bytes", future as f64)
        }
        (_, "fom") => park::<with_data::Plain, [u64; 4]>(one),
        _ => {
            let future = future_size(with_data::Async::step);
            park::<with_data::Async, [u64; 4]>(one).with("future_bytes", future as f64)
        }
    }
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

fn park<O: Waits<Event: From<M>>, M: Message>(one: &One) -> Figures {
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
        assert!(fom.send(M::default().into()).is_ok(), "it waits");
    })
}
