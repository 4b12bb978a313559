//! Parameters, and a record.
use fom_runtime::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Job<T> {
    first: T,
}

#[fom(operation("Job<T>"))]
enum Phases<T: Clone + Send + Serialize + DeserializeOwned + 'static> {
    #[phase(start, to(Work))]
    Begin,
    #[phase(to(Done, Begin))]
    Work { item: T, times: u8 },
    #[phase(end)]
    Done,
}

impl<T: Clone + Send + Serialize + DeserializeOwned + 'static> PhasesTransitions<T> for Job<T> {
    async fn begin(&mut self, _: &mut Cx<'_>) -> Result<PhasesAfterBegin<T>, BoxError> {
        Ok(PhasesAfterBegin::Work {
            item: self.first.clone(),
            times: 3,
        })
    }
    async fn work(
        &mut self,
        _: &mut Cx<'_>,
        _: PhasesInWork<'_, T>,
    ) -> Result<PhasesAfterWork, BoxError> {
        Ok(PhasesAfterWork::Done)
    }
}

fn main() {
    assert!(Job::<u32>::GRAPH.phases().len() == 3);
}
