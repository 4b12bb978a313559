//! A layer: phases before and after the phases of another operation.

use fom_runtime::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Mark, Story};

/// An operation with a layer around it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Guarded<R> {
    pub(crate) request: R,
    pub(crate) seen: String,
}

#[fom(operation(Guarded<R>), around(R))]
pub(crate) enum Guarding<R: Story> {
    #[phase(start, sync, to(Serve))]
    Begin,
    #[phase(inner(request), to(Last))]
    Serve { phase: R::Phase },
    #[phase(sync, to(Done))]
    Last,
    #[phase(end)]
    Done,
}

impl<R: Story> GuardingTransitions<R> for Guarded<R> {
    fn begin(&mut self, cx: &mut Cx<'_, R::Event>) -> Result<(), BoxError> {
        self.mark().effect(cx, "Begin");
        self.seen.push('b');
        self.mark_mut().hop();
        Ok(())
    }
    async fn serve(&mut self, cx: &mut Cx<'_, R::Event>, _: &mut R::Phase) -> Result<(), BoxError> {
        self.mark().effect(cx, "Done");
        self.seen.push('s');
        self.mark_mut().hop();
        Ok(())
    }
    fn last(&mut self, cx: &mut Cx<'_, R::Event>) -> Result<(), BoxError> {
        self.mark().effect(cx, "Last");
        self.seen.push('l');
        self.mark_mut().hop();
        Ok(())
    }
}

impl<R: Story> Story for Guarded<R> {
    const LETTER: char = R::LETTER.to_ascii_uppercase();
    fn make(n: u64) -> Self {
        Self {
            request: R::make(n),
            seen: String::new(),
        }
    }
    fn mark(&self) -> &Mark {
        self.request.mark()
    }
    fn mark_mut(&mut self) -> &mut Mark {
        self.request.mark_mut()
    }
    fn outcome(&self) -> String {
        format!("{}-{}", self.seen, self.request.outcome())
    }
    fn due(n: u64) -> String {
        format!("bsl-{}", R::due(n))
    }
}
