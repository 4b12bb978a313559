//! An operation with parameters of its own, and phases with a parameter that only some exits need.
use std::marker::PhantomData;

use fom_runtime::prelude::*;

trait Store: Send + 'static {
    fn put(&mut self, text: String);
}

struct Job<S, T> {
    store: S,
    item: PhantomData<T>,
}

#[fom(operation("Job<S, T>"), generics("S: Store"), transient)]
enum Phases<T: Clone + Send + 'static>
where
    T: ToString,
{
    #[phase(start, to(Write, Nothing))]
    Fetch,
    #[phase(to(Written))]
    Write { item: T },
    #[phase(end)]
    Written,
    #[phase(end, failure)]
    Nothing { code: u16 },
}

impl<S: Store, T: Clone + Send + ToString + 'static> PhasesTransitions<T> for Job<S, T> {
    async fn fetch(&mut self, _: &mut Cx<'_>) -> Result<PhasesAfterFetch<T>, BoxError> {
        Ok(PhasesAfterFetch::Nothing { code: 404 })
    }
    async fn write(&mut self, _: &mut Cx<'_>, item: &mut T) -> Result<(), BoxError> {
        self.store.put(item.to_string());
        Ok(())
    }
}

struct Nowhere;

impl Store for Nowhere {
    fn put(&mut self, _: String) {}
}

trait Named: Send + 'static {
    const NAME: &'static str;
}

/// Its name in listings is that of what it carries.
struct Carrier<T> {
    load: T,
}

#[fom(operation("Carrier<T>", name = T::NAME), generics("T: Named"), transient)]
enum Way {
    #[phase(start, sync, to(There))]
    Go,
    #[phase(end)]
    There,
}

impl<T: Named> WayTransitions for Carrier<T> {
    fn go(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        let _ = &self.load;
        Ok(())
    }
}

impl Named for Nowhere {
    const NAME: &'static str = "To nowhere";
}

fn is_operation<O: Operation>() {}

fn main() {
    is_operation::<Job<Nowhere, u32>>();
    assert_eq!(Job::<Nowhere, u32>::GRAPH.operation(), "Job<S,T>");
    assert_eq!(Carrier::<Nowhere>::GRAPH.operation(), "To nowhere");
}
