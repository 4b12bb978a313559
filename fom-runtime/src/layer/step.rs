//! A step of the operation inside a layer, as one of the layer's.

use crate::{
    Cx,
    error::Cause,
    fom::Launch,
    graph::Joined,
    layer::{Layer, Layered},
    operation::{At, Entry, Next, Operation, Stepped},
};

/// Runs the function of a phase of the operation inside. Whatever form it has by itself, inside a layer it is a future.
#[doc(hidden)]
pub fn inner<'a, R: Operation, E: Send + 'static>(
    operation: &'a mut R,
    at: At<'a, '_, R::Phase, R::Event>,
) -> impl Future<Output = Stepped<R>> + Send {
    if let Entry::Failed = at.entry {
        lower::<E, R>(at.cx);
    }
    <R::Form as Launch<R>>::step(operation, at)
}

/// What a step of the operation inside came to, as what a step of the layer comes to.
#[doc(hidden)]
pub fn raised<R: Operation, P, E>(
    stepped: Stepped<R>,
    raise: impl FnOnce(R::Phase) -> P,
) -> Result<Next<P>, Layered<E, R::Error>> {
    match stepped {
        Ok(Next::Go(phase)) => Ok(Next::Go(raise(phase))),
        Ok(Next::Stay) => Ok(Next::Stay),
        Err(error) => Err(Layered::Inner(error)),
    }
}

/// What a function of the layer's own came to.
#[doc(hidden)]
#[inline]
pub fn own<T, E, I>(done: Result<T, E>) -> Result<T, Layered<E, I>> {
    done.map_err(Layered::Own)
}

/// Whether it is the operation inside that has the function to be run: its phase is no end of it; and where that has failed, it has
/// something to say to that.
#[doc(hidden)]
pub fn is_inside<R: Operation>(
    phase: &R::Phase,
    entry: &Entry<R::Event>,
    cx: &Cx<'_, R::Event>,
) -> bool {
    let info = &R::GRAPH.phases()[R::index(R::kind(phase))];
    match entry {
        Entry::Failed => cx.asked() <= info.ways_out(),
        _ => !info.is_end(),
    }
}

/// Why a phase of the layer's own has failed.
#[doc(hidden)]
pub fn own_failure<E: Send + 'static, I: Send + 'static, V>(cx: &Cx<'_, V>) -> Cause<E> {
    let cause: Cause<Layered<E, I>> = cx.failure();
    cause.map(|error| match error {
        Layered::Own(error) => error,
        Layered::Inner(_) => unreachable!("no phase inside was run"),
    })
}

/// Why a phase of the operation inside has failed, for a function of that one.
fn lower<E: Send + 'static, R: Operation>(cx: &Cx<'_, R::Event>) {
    let cause: Cause<Layered<E, R::Error>> = cx.failure();
    cx.put_failure(cause.map(|error| match error {
        Layered::Inner(error) => error,
        Layered::Own(_) => unreachable!("the layer is asked after what is inside"),
    }));
}

/// Whether phases of the operation inside are still to come, or may come again: then it goes on, too, when the layer is restored.
#[doc(hidden)]
pub fn leads_inside<L: Layer>(kind: L::Kind) -> bool {
    let phases = L::GRAPH.phases();
    let inside =
        Joined::<L>::PLACE..Joined::<L>::PLACE + <L::Inner as Operation>::GRAPH.phases().len();
    let mut reached = vec![false; phases.len()];
    let mut todo = vec![L::index(kind)];
    while let Some(index) = todo.pop() {
        if inside.contains(&index) {
            return true;
        }
        if !std::mem::replace(&mut reached[index], true) {
            todo.extend(
                phases[index]
                    .exit_indexes()
                    .iter()
                    .map(|exit| usize::from(*exit)),
            );
        }
    }
    false
}

/// The name of a phase of the operation inside, as that one calls it.
#[doc(hidden)]
pub fn inner_name<L: Layer>(name: &str) -> Option<&str> {
    let holder = L::OWN.phases().iter().find(|phase| phase.is_inner())?;
    name.strip_prefix(holder.name())?.strip_prefix('.')
}
