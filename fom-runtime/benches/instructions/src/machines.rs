//! The operations that are counted.

use std::{
    future::poll_fn,
    sync::{Mutex, PoisonError},
    task::Poll,
};

use fom_runtime::{prelude::*, submission::EventSender};

/// The work of a phase: as little as possible.
pub(crate) fn mix(word: u64) -> u64 {
    word.rotate_left(5) ^ 0x9e37_79b9_7f4a_7c15
}

/// Goes round its phases `left` times.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) word: u64,
    pub(crate) left: u64,
}

#[fom(operation(Chain), transient)]
#[derive(Debug)]
pub(crate) enum Chained {
    #[phase(start, sync, to(Second, Done))]
    First,
    #[phase(sync, to(Third, Done))]
    Second,
    #[phase(sync, to(Fourth, Done))]
    Third,
    #[phase(sync, to(First, Done))]
    Fourth,
    #[phase(end)]
    Done,
}

impl Chain {
    fn last(&mut self) -> bool {
        self.word = mix(self.word);
        self.left -= 1;
        self.left == 0
    }
}

impl ChainedTransitions for Chain {
    fn first(&mut self, _: &mut Cx<'_>) -> Result<ChainedAfterFirst, BoxError> {
        Ok(match self.last() {
            true => ChainedAfterFirst::Done,
            false => ChainedAfterFirst::Second,
        })
    }

    fn second(&mut self, _: &mut Cx<'_>) -> Result<ChainedAfterSecond, BoxError> {
        Ok(match self.last() {
            true => ChainedAfterSecond::Done,
            false => ChainedAfterSecond::Third,
        })
    }

    fn third(&mut self, _: &mut Cx<'_>) -> Result<ChainedAfterThird, BoxError> {
        Ok(match self.last() {
            true => ChainedAfterThird::Done,
            false => ChainedAfterThird::Fourth,
        })
    }

    fn fourth(&mut self, _: &mut Cx<'_>) -> Result<ChainedAfterFourth, BoxError> {
        Ok(match self.last() {
            true => ChainedAfterFourth::Done,
            false => ChainedAfterFourth::First,
        })
    }
}

/// The same with async phases.
#[derive(Debug)]
pub(crate) struct AsyncChain(pub(crate) Chain);

#[fom(operation(AsyncChain), transient)]
pub(crate) enum AsyncChained {
    #[phase(start, to(Second, Done))]
    First,
    #[phase(to(Third, Done))]
    Second,
    #[phase(to(Fourth, Done))]
    Third,
    #[phase(to(First, Done))]
    Fourth,
    #[phase(end)]
    Done,
}

impl AsyncChainedTransitions for AsyncChain {
    async fn first(&mut self, _: &mut Cx<'_>) -> Result<AsyncChainedAfterFirst, BoxError> {
        Ok(match self.0.last() {
            true => AsyncChainedAfterFirst::Done,
            false => AsyncChainedAfterFirst::Second,
        })
    }

    async fn second(&mut self, _: &mut Cx<'_>) -> Result<AsyncChainedAfterSecond, BoxError> {
        Ok(match self.0.last() {
            true => AsyncChainedAfterSecond::Done,
            false => AsyncChainedAfterSecond::Third,
        })
    }

    async fn third(&mut self, _: &mut Cx<'_>) -> Result<AsyncChainedAfterThird, BoxError> {
        Ok(match self.0.last() {
            true => AsyncChainedAfterThird::Done,
            false => AsyncChainedAfterThird::Fourth,
        })
    }

    async fn fourth(&mut self, _: &mut Cx<'_>) -> Result<AsyncChainedAfterFourth, BoxError> {
        Ok(match self.0.last() {
            true => AsyncChainedAfterFourth::Done,
            false => AsyncChainedAfterFourth::First,
        })
    }
}

/// Strikes a ball back until it has done so `left` times.
pub(crate) struct Player {
    pub(crate) left: u64,
    pub(crate) other: Option<EventSender<Ball>>,
}

pub(crate) enum Ball {
    Meet(EventSender<Ball>),
    Hit,
}

#[fom(operation(Player), event(Ball), transient)]
pub(crate) enum Play {
    #[phase(start, sync, on(Meet, Hit), to(Over))]
    Game,
    #[phase(end)]
    Over,
}

impl PlayTransitions for Player {
    fn game(&mut self, _: &mut Cx<'_, Ball>, ball: Ball) -> Result<PlayAfterGame, BoxError> {
        match ball {
            Ball::Meet(other) => self.other = Some(other),
            Ball::Hit => {
                self.left -= 1;
                if let Some(other) = &self.other {
                    // The other player may have had its last ball.
                    let _ = other.send(Ball::Hit);
                }
            }
        }
        Ok(match self.left {
            0 => PlayAfterGame::Over,
            _ => PlayAfterGame::Stay,
        })
    }
}

/// The same with an async phase.
pub(crate) struct AsyncPlayer(pub(crate) Player);

#[fom(operation(AsyncPlayer), event(Ball), transient)]
pub(crate) enum AsyncPlay {
    #[phase(start, on(Meet, Hit), to(Over))]
    Game,
    #[phase(end)]
    Over,
}

impl AsyncPlayTransitions for AsyncPlayer {
    async fn game(&mut self, cx: &mut Cx<'_, Ball>) -> Result<(), BoxError> {
        while self.0.left > 0 {
            match cx.event().await {
                Ball::Meet(other) => self.0.other = Some(other),
                Ball::Hit => {
                    self.0.left -= 1;
                    if let Some(other) = &self.0.other {
                        let _ = other.send(Ball::Hit);
                    }
                }
            }
        }
        Ok(())
    }
}

pub(crate) enum Go {
    Go,
}

/// Waits for one event.
pub(crate) struct Parked;

#[fom(operation(Parked), event(Go), transient)]
pub(crate) enum Parking {
    #[phase(start, sync, on(Go), to(Left))]
    Stand,
    #[phase(end)]
    Left,
}

impl ParkingTransitions for Parked {
    fn stand(&mut self, _: &mut Cx<'_, Go>, _: Go) -> Result<ParkingAfterStand, BoxError> {
        Ok(ParkingAfterStand::Left)
    }
}

/// Waits for one event, for an hour.
pub(crate) struct Timed;

#[fom(operation(Timed), event(Go), transient)]
pub(crate) enum Timing {
    #[phase(start, sync, on(Go), to(Left), within = "1h", late)]
    Stand,
    #[phase(end)]
    Left,
}

impl TimingTransitions for Timed {
    fn stand(&mut self, _: &mut Cx<'_, Go>, _: Go) -> Result<TimingAfterStand, BoxError> {
        Ok(TimingAfterStand::Left)
    }

    fn stand_late(&mut self, _: &mut Cx<'_, Go>) -> Result<TimingAfterStand, BoxError> {
        Ok(TimingAfterStand::Left)
    }
}

/// A component that leaves its answers to [`Clerk`].
#[derive(Default)]
pub(crate) struct Desk(Mutex<Vec<Reply<u64>>>);

impl Desk {
    fn replies(&self) -> std::sync::MutexGuard<'_, Vec<Reply<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks the desk `left` times, one after the other.
pub(crate) struct Caller {
    pub(crate) left: u64,
}

#[fom(operation(Caller), transient)]
pub(crate) enum Calling {
    #[phase(start, to(Over))]
    Ask,
    #[phase(end)]
    Over,
}

impl CallingTransitions for Caller {
    async fn ask(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        for _ in 0..self.left {
            cx.call(|desk: &Desk, reply| desk.replies().push(reply))
                .await?;
        }
        Ok(())
    }
}

/// Answers the requests on the desk until it has answered `left`.
pub(crate) struct Clerk {
    pub(crate) left: u64,
}

#[fom(operation(Clerk), transient)]
pub(crate) enum Answering {
    #[phase(start, to(Home))]
    Work,
    #[phase(end)]
    Home,
}

impl AnsweringTransitions for Clerk {
    async fn work(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let mut replies = Vec::new();
        while self.left > 0 {
            std::mem::swap(&mut replies, &mut cx.resource::<Desk>().replies());
            for reply in replies.drain(..) {
                self.left -= 1;
                // All callers are alive.
                let _ = reply.send(self.left);
            }
            to_the_tail().await;
        }
        Ok(())
    }
}

/// Goes to the tail of the run queue, once.
pub(crate) async fn to_the_tail() {
    let mut been = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut been, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
