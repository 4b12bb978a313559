//! The driven machine.

use super::*;

pub(super) struct Driven(pub(super) Script);

#[fom(operation(Driven), error(Oops), event(Event), transient)]
pub(super) enum Machine {
    #[phase(
        start,
        to(Run, Tight, Wait, Again, Done, Bad),
        within = "15s",
        keep(Wait, Tight)
    )]
    Run,
    #[phase(to(Run, Tight, Wait, Again, Done, Bad), on(Even), within = "10s", late)]
    Tight,
    #[phase(to(Run, Tight, Wait, Again, Done, Bad), on(Odd), within = "7s")]
    Wait,
    #[phase(
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

impl Driven {
    async fn act(&mut self, cx: &mut Cx<'_, Event>) -> Result<Option<To>, Oops> {
        let step = self.0.next();
        if let Do::Sleep(time, _) = step {
            cx.sleep(secs(time.into())).await;
        }
        act!(self, cx, Driven, step)
    }

    /// Like the sync phase with events: once for each event, until the fom goes somewhere.
    async fn on_events(&mut self, cx: &mut Cx<'_, Event>) -> Result<To, Oops> {
        loop {
            let event = cx.event().await;
            self.0.taken.push(event);
            if let Some(to) = self.act(cx).await? {
                return Ok(to);
            }
        }
    }
}

impl MachineTransitions for Driven {
    async fn run(&mut self, cx: &mut Cx<'_, Event>) -> Result<MachineAfterRun, Oops> {
        Ok(exit!(
            MachineAfterRun,
            self.act(cx).await?.unwrap_or(To::Done)
        ))
    }

    async fn tight(&mut self, cx: &mut Cx<'_, Event>) -> Result<MachineAfterTight, Oops> {
        Ok(exit!(MachineAfterTight, self.on_events(cx).await?))
    }

    async fn tight_late(&mut self, cx: &mut Cx<'_, Event>) -> Result<MachineAfterTight, Oops> {
        Ok(exit!(
            MachineAfterTight,
            self.act(cx).await?.unwrap_or(To::Done)
        ))
    }

    async fn wait(&mut self, cx: &mut Cx<'_, Event>) -> Result<MachineAfterWait, Oops> {
        Ok(exit!(MachineAfterWait, self.on_events(cx).await?))
    }

    async fn again(&mut self, cx: &mut Cx<'_, Event>) -> Result<MachineAfterAgain, Oops> {
        Ok(exit!(
            MachineAfterAgain,
            self.act(cx).await?.unwrap_or(To::Done)
        ))
    }
}
