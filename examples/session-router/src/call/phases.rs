//! What a call does in each of its phases.

use fom_runtime::prelude::*;

use super::*;
use crate::call::since_start;
use crate::cdr::Records;
use crate::locator::{Found, Locator};

/// The deadline of `Talk`, from which the talk time is computed.
const LONGEST: Duration = Duration::from_secs(12 * 3600);

impl StageTransitions for Call {
    /// After a restart of the router, the call continues in its last phase. The phase begins again and repeats what it
    /// sends, except the 200 of a call in `Talk`. The endpoint that answered repeats the 200 until the ACK arrives (RFC
    /// 3261, 13.3.1.4), and most calls had their ACK long ago.
    fn resume(&mut self, cx: &mut Cx<'_, CallEvent>, phase: &mut Stage) -> Result<(), BoxError> {
        let (net, timers) = (cx.resource::<Net>().clone(), *cx.resource::<Timers>());
        self.restart(net, timers, since_start(cx.now()));
        if let Stage::Talk = phase {
            self.owed.clear();
        }
        Ok(())
    }

    async fn locate(&mut self, cx: &mut Cx<'_, CallEvent>) -> Result<StageAfterLocate, BoxError> {
        let now = since_start(cx.now());
        self.began = Some(now);
        self.trying();
        let user = self.invite.user().unwrap_or_default().to_owned();
        let found = cx
            .call(|locator: &Locator, reply| locator.find(&user, now, reply))
            .await;
        let now = since_start(cx.now());
        let outcome = match found {
            Ok(Found::At(bindings)) => return Ok(StageAfterLocate::Ring { bindings }),
            Ok(Found::Unknown) => self.refuse(404, "", now),
            Ok(Found::Away) => self.refuse(480, "", now),
            Err(_) => self.refuse(500, "", now),
        };
        Ok(StageAfterLocate::Record { outcome })
    }

    async fn locate_late(
        &mut self,
        cx: &mut Cx<'_, CallEvent>,
    ) -> Result<StageAfterLocate, BoxError> {
        let outcome = self.refuse(504, "", since_start(cx.now()));
        Ok(StageAfterLocate::Record { outcome })
    }

    async fn ring(
        &mut self,
        cx: &mut Cx<'_, CallEvent>,
        bindings: &mut Vec<Binding>,
    ) -> Result<StageAfterRing, BoxError> {
        // Events that came during the lookup were kept. Events from before a restart were not, and come again. A CANCEL
        // here means that no place needs to ring.
        while let Some(event) = cx.try_event() {
            if let Happened::Cancelled = self.take(event, since_start(cx.now())) {
                return Ok(StageAfterRing::Record {
                    outcome: self.refuse(487, "", since_start(cx.now())),
                });
            }
        }
        self.ring_at(bindings, since_start(cx.now()));
        loop {
            if let Some(refusal) = self.forks.verdict() {
                return Ok(StageAfterRing::Record {
                    outcome: self.refuse_as(&refusal, since_start(cx.now())),
                });
            }
            if let Some(event) = cx.event_within(self.quiet(since_start(cx.now()))).await {
                match self.take(event, since_start(cx.now())) {
                    Happened::Answered => {
                        // The first place wins, and the others are cancelled (RFC 3261, 16.7 step 10).
                        self.forks
                            .cancel(&self.net, since_start(cx.now()), &self.timers);
                        return Ok(StageAfterRing::Talk);
                    }
                    Happened::Cancelled => {
                        self.forks
                            .cancel(&self.net, since_start(cx.now()), &self.timers)
                    }
                    Happened::Again(invite) => {
                        self.refuse_other(&invite, 500, "Retry-After: 5\r\n")
                    }
                    _ => {}
                }
            }
            self.tick(since_start(cx.now()));
        }
    }

    async fn talk(&mut self, cx: &mut Cx<'_, CallEvent>) -> Result<StageAfterTalk, BoxError> {
        self.set_up(since_start(cx.now()));
        self.pay();
        self.free_unneeded_memory(); // the call may last for hours
        // The deadline continues over a restart, unlike a clock.
        let deadline = cx
            .deadline()
            .map_or_else(|| since_start(cx.now()) + LONGEST, since_start);
        // This wait begins again after a restart, since the caller may repeat its ACK.
        let confirm = self
            .unconfirmed_for()
            .map(|time| since_start(cx.now()) + time);
        let mut hung_up = false;
        while !hung_up {
            let now = since_start(cx.now());
            if confirm.is_some_and(|until| until <= now) {
                self.talked(LONGEST - deadline.saturating_sub(now));
                return Ok(StageAfterTalk::Record {
                    outcome: Outcome::Unconfirmed,
                });
            }
            let quiet = self.quiet(now);
            let wait = confirm.map_or(quiet, |until| quiet.min(until - now));
            if let Some(event) = cx.event_within(wait).await {
                match self.take(event, since_start(cx.now())) {
                    Happened::HungUp => hung_up = true,
                    Happened::Answered | Happened::Confirmed => {
                        self.talked(LONGEST - deadline.saturating_sub(since_start(cx.now())));
                        return Ok(StageAfterTalk::Talk);
                    }
                    Happened::Again(invite) => {
                        self.refuse_other(&invite, 500, "Retry-After: 5\r\n")
                    }
                    _ => {}
                }
            }
            hung_up |= self.tick(since_start(cx.now()));
        }
        self.talked(LONGEST - deadline.saturating_sub(since_start(cx.now())));
        Ok(StageAfterTalk::Record {
            outcome: Outcome::Completed,
        })
    }

    async fn talk_late(&mut self, _: &mut Cx<'_, CallEvent>) -> Result<StageAfterTalk, BoxError> {
        Ok(StageAfterTalk::Record {
            outcome: Outcome::Forgotten,
        })
    }

    fn record(
        &mut self,
        cx: &mut BlockingCx<'_>,
        outcome: &mut Outcome,
    ) -> Result<StageAfterRecord, BoxError> {
        let counters = self.net.counters();
        match outcome {
            Outcome::Completed | Outcome::Forgotten => counters.completed.add(),
            Outcome::Unconfirmed => counters.unconfirmed.add(),
            Outcome::Cancelled => counters.cancelled.add(),
            Outcome::Rejected(_) => counters.rejected.add(),
        }
        self.pay();
        let counters = self.net.counters();
        if cx
            .resource::<Records>()
            .write(&self.record, *outcome)
            .is_err()
        {
            counters.unrecorded.add(); // the call matters more than its record
        }
        Ok(StageAfterRecord::Linger { outcome: *outcome })
    }

    async fn linger(
        &mut self,
        cx: &mut Cx<'_, CallEvent>,
        outcome: &mut Outcome,
    ) -> Result<StageAfterLinger, BoxError> {
        self.free_unneeded_memory(); // this may take half a minute
        let mut draining = self.net.draining();
        self.pay();
        let mut until = since_start(cx.now()) + self.timers.give_up();
        while since_start(cx.now()) < until {
            let wait = self
                .quiet(since_start(cx.now()))
                .min(until - since_start(cx.now()));
            let event = tokio::select! {
                event = cx.event_within(wait) => event,
                // Only stragglers may still come, so a draining router ends the call here.
                _ = draining.wait_for(|draining| *draining) => break,
            };
            match event.map(|event| self.take(event, since_start(cx.now()))) {
                // Timer I: only repeats of the ACK may come now, and not for long.
                Some(Happened::Acked) => until = until.min(since_start(cx.now()) + self.timers.t4),
                // Too late: the caller gets the answer, and hangs up.
                Some(Happened::Answered | Happened::Confirmed) => self.pay(),
                Some(Happened::Again(invite)) => {
                    self.again(invite);
                    return Ok(StageAfterLinger::Locate);
                }
                _ => {}
            }
            self.tick(since_start(cx.now()));
        }
        Ok(match *outcome {
            Outcome::Completed | Outcome::Forgotten | Outcome::Unconfirmed => {
                StageAfterLinger::Completed
            }
            Outcome::Cancelled => StageAfterLinger::Cancelled,
            Outcome::Rejected(status) => StageAfterLinger::Rejected { status },
        })
    }
}
