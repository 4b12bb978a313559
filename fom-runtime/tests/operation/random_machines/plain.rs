//! The plain machine.

use super::*;

pub(super) struct Plain(pub(super) Script);

#[fom(operation(Plain), error(Oops), event(Event), transient)]
pub(super) enum Machine {
    #[phase(
        start,
        sync,
        to(Run, Tight, Wait, Again, Done, Bad),
        within = "15s",
        keep(Wait, Tight)
    )]
    Run,
    #[phase(
        sync,
        to(Run, Tight, Wait, Again, Done, Bad),
        on(Even),
        within = "10s",
        late
    )]
    Tight,
    #[phase(sync, to(Run, Tight, Wait, Again, Done, Bad), on(Odd), within = "7s")]
    Wait,
    #[phase(
        sync,
        to(Run, Tight, Wait, Again, Done, Bad),
        retry = "2, 2s..3s",
        within = "20s"
    )]
    Again,
    #[phase(end)]
    Done,
    #[phase(end, failure)]
    Bad,
}

impl Plain {
    fn act(&mut self, cx: &mut Cx<'_, Event>) -> Result<Option<To>, Oops> {
        act!(self, cx, Plain, self.0.next())
    }
}

impl MachineTransitions for Plain {
    fn run(&mut self, cx: &mut Cx<'_, Event>) -> Result<MachineAfterRun, Oops> {
        Ok(exit!(MachineAfterRun, self.act(cx)?.unwrap_or(To::Done)))
    }

    fn tight(&mut self, cx: &mut Cx<'_, Event>, event: Event) -> Result<MachineAfterTight, Oops> {
        self.0.taken.push(event);
        Ok(match self.act(cx)? {
            Some(to) => exit!(MachineAfterTight, to),
            None => MachineAfterTight::Stay,
        })
    }

    fn tight_late(&mut self, cx: &mut Cx<'_, Event>) -> Result<MachineAfterTight, Oops> {
        Ok(exit!(MachineAfterTight, self.act(cx)?.unwrap_or(To::Done)))
    }

    fn wait(&mut self, cx: &mut Cx<'_, Event>, event: Event) -> Result<MachineAfterWait, Oops> {
        self.0.taken.push(event);
        Ok(match self.act(cx)? {
            Some(to) => exit!(MachineAfterWait, to),
            None => MachineAfterWait::Stay,
        })
    }

    fn again(&mut self, cx: &mut Cx<'_, Event>) -> Result<MachineAfterAgain, Oops> {
        Ok(exit!(MachineAfterAgain, self.act(cx)?.unwrap_or(To::Done)))
    }
}
