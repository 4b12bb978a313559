//! Steps of the inner operation of a layer, as steps of the layer.
//!
//! Hidden items here are for generated code.

use crate::{
    cx::failure,
    fom::{Cause, Entry, RunningFom},
    graph::Joined,
    layer::{Layer, Layered},
    operation::{At, Form, Operation, Stepped},
};

/// Runs the function of a phase of the inner operation. In a layer it is always a future, whatever the operation's own
/// form.
#[doc(hidden)]
pub fn inner<'a, R: Operation, E: Send + 'static>(
    operation: &'a mut R,
    at: At<'a, '_, R::Phase, R::Event>,
) -> impl Future<Output = Stepped<R>> + Send {
    if let Entry::Failed = at.entry {
        lower::<E, R>(at.fom);
    }
    <R::Form as Form<R>>::step(operation, at)
}

/// Converts the result of a step of the inner operation into the result of a step of the layer.
#[doc(hidden)]
pub fn raised<R: Operation, P, E>(
    stepped: Stepped<R>,
    raise: impl FnOnce(R::Phase) -> P,
) -> Result<Option<P>, Layered<E, R::Error>> {
    match stepped {
        Ok(next) => Ok(next.map(raise)),
        Err(error) => Err(Layered::Inner(error)),
    }
}

/// Converts the result of one of the layer's own functions.
#[doc(hidden)]
#[inline]
pub fn own<T, E, I>(done: Result<T, E>) -> Result<T, Layered<E, I>> {
    done.map_err(Layered::Own)
}

/// Returns whether the inner operation has the function to run. That holds if the phase is not an end. After a
/// failure, it holds if the phase still has a function that says where to go.
#[doc(hidden)]
pub fn is_inside<R: Operation>(
    phase: &R::Phase,
    entry: &Entry<R::Event>,
    fom: RunningFom<'_, R::Event>,
) -> bool {
    let info = &R::GRAPH.phases()[R::index(R::kind(phase))];
    match entry {
        Entry::Failed => fom.get().failure().asked() <= info.exits.ways_out,
        _ => !info.is_end(),
    }
}

/// Returns why one of the layer's own phases failed.
#[doc(hidden)]
pub fn own_failure<E: Send + 'static, I: Send + 'static, V>(fom: RunningFom<'_, V>) -> Cause<E> {
    let cause: Cause<Layered<E, I>> = failure(fom);
    cause.map(|error| match error {
        Layered::Own(error) => error,
        Layered::Inner(_) => unreachable!("no phase inside was run"),
    })
}

/// Passes on why a phase of the inner operation failed, for a function of that operation.
fn lower<E: Send + 'static, R: Operation>(fom: RunningFom<'_, R::Event>) {
    let cause: Cause<Layered<E, R::Error>> = failure(fom);
    fom.get().failure().put(cause.map(|error| match error {
        Layered::Inner(error) => error,
        Layered::Own(_) => unreachable!("the layer is asked after what is inside"),
    }));
}

/// Returns whether phases of the inner operation can follow. If so, restoring the layer also resumes the inner
/// operation.
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

/// Returns the name that the inner operation gives to its phase.
#[doc(hidden)]
pub fn inner_name<L: Layer>(name: &str) -> Option<&str> {
    let holder = L::OWN.phases().iter().find(|phase| phase.is_inner())?;
    name.strip_prefix(holder.name())?.strip_prefix('.')
}
