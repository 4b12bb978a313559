//! A number as a parameter.
use fom_runtime::prelude::*;

struct Copy<const N: usize>;

#[fom(operation("Copy<N>"), transient)]
enum Phases<const N: usize> {
    #[phase(start, to(Write))]
    Read,
    #[phase(to(Done))]
    Write { block: [u8; N] },
    #[phase(end)]
    Done,
}

impl<const N: usize> PhasesTransitions<N> for Copy<N> {
    async fn read(&mut self, _: &mut Cx<'_>) -> Result<PhasesAfterRead<N>, BoxError> {
        Ok(PhasesAfterRead::Write { block: [0; N] })
    }
    async fn write(&mut self, _: &mut Cx<'_>, _: &mut [u8; N]) -> Result<(), BoxError> {
        Ok(())
    }
}

fn main() {
    assert_eq!(Copy::<3>::GRAPH.phases().len(), 3);
}
