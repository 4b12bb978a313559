//! A parameter of the operation that `generics(..)` does not name.
use fom_runtime::prelude::*;

trait Store: Send + 'static {}

struct Memory;

impl Store for Memory {}

struct Job<S> {
    store: S,
}

#[fom(operation(Job<S>), transient)]
enum Working {
    #[phase(start, to(Done))]
    Work,
    #[phase(end)]
    Done,
}

impl<S: Store> WorkingTransitions for Job<S> {
    async fn work(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        let _ = &self.store;
        Ok(())
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(Job { store: Memory });
}
