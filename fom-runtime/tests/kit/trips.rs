//! Foms whose events the flight recorder keeps.

use fom_runtime::prelude::*;

/// Blocks, waits for an event, tries again, and ends in one of several ways.
pub(crate) struct Trip {
    pub(crate) fails: u32,
    /// The fom that gets an event from the second phase.
    pub(crate) tells: Option<FomRef<Trip>>,
}

#[fom(operation(Trip), event(Signal), error(BoxError), transient)]
pub(crate) enum Tripping {
    #[phase(start, to(Wait), blocking)]
    Load,
    #[phase(sync, to(Try), on(Go), within = "1m", late)]
    Wait,
    #[phase(to(Home), retry = "1, 1s..1s")]
    Try,
    #[phase(end)]
    Home,
}

#[derive(Debug)]
pub(crate) enum Signal {
    Go,
}

impl TrippingTransitions for Trip {
    fn load(&mut self, _: &mut BlockingCx<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    fn wait(&mut self, _: &mut Cx<'_, Signal>, _: Signal) -> Result<TrippingAfterWait, BoxError> {
        if let Some(other) = &self.tells {
            other.send(Signal::Go).map_err(|_| "the other has ended")?;
        }
        Ok(TrippingAfterWait::Try)
    }

    fn wait_late(&mut self, _: &mut Cx<'_, Signal>) -> Result<TrippingAfterWait, BoxError> {
        Ok(TrippingAfterWait::Try)
    }

    async fn r#try(&mut self, _: &mut Cx<'_, Signal>) -> Result<(), BoxError> {
        match self.fails {
            0 => Ok(()),
            9 => panic!("nine is too much"),
            _ => {
                self.fails -= 1;
                Err("not yet".into())
            }
        }
    }
}

pub(crate) fn trip(fails: u32) -> Trip {
    Trip { fails, tells: None }
}

/// Goes to and fro some times.
pub(crate) struct Walk(pub(crate) u32);

#[fom(operation(Walk), transient)]
pub(crate) enum Walking {
    #[phase(start, sync, to(Right, Done))]
    Left,
    #[phase(sync, to(Left))]
    Right,
    #[phase(end)]
    Done,
}

impl WalkingTransitions for Walk {
    fn left(&mut self, _: &mut Cx<'_>) -> Result<WalkingAfterLeft, BoxError> {
        self.0 -= 1;
        Ok(match self.0 {
            0 => WalkingAfterLeft::Done,
            _ => WalkingAfterLeft::Right,
        })
    }

    fn right(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}
