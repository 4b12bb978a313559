//! Where one user can be reached: one fom for each user with bindings (RFC 3261, 10). Its key is the user's name, so
//! registrations survive as calls do.
//!
//! The fom is the truth, and the [`Locator`] is its index. After a restart every fom tells the locator again.

use std::time::Duration;

use fom_runtime::{
    error::{RefusedReason, SendError, Unanswered},
    prelude::*,
};
use serde::{Deserialize, Serialize};

use crate::call::since_start;
use crate::locator::{Locator, Place, Registered, Update, Updated};
use crate::places;
use crate::sources::Source;
use crate::wire::udp::Net;

/// The longest lifetime of a binding; as long as the deadline of [`Contacts::Known`].
pub(crate) const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// An event of a user's bindings.
#[derive(Debug)]
pub enum BindingsEvent {
    /// A REGISTER, and the reply for its result.
    Change(Update, Reply<Updated>),
}

/// The phases of a user's bindings.
///
/// The fom answers a REGISTER once its change is on disk: one transition, from `Known` to `Known`, and one sync. A
/// request that changes nothing costs no sync. A binding that expires costs none either, since the time tells it after
/// a restart as well.
#[fom(operation(Bindings), event(BindingsEvent))]
pub enum Contacts {
    /// The user can be reached, until the last binding expires or is removed. The deadline is never reached. It is the
    /// clock for expiry, since it continues over a restart.
    #[phase(start, to(Known, Gone), on(Change), within = "24h", late)]
    Known,
    /// There is nothing to remember.
    #[phase(end)]
    Gone,
}

/// The bindings of one user.
#[derive(Debug, Serialize, Deserialize)]
pub struct Bindings {
    user: String,
    /// The bindings, each with the time that it has left when the fom enters the phase.
    place: Place,
    /// The reply to send once the last change is on disk. `None` after a restart: a client without an answer asks
    /// again.
    #[serde(skip)]
    asked: Option<(Reply<Updated>, Updated)>,
    /// The source that pays for the place.
    source: Source,
    #[serde(skip)]
    _held: places::Place,
}

/// Changes the user's bindings.
pub(crate) fn change(runtime: &Runtime, net: &Net, update: Update, reply: Reply<Updated>) {
    let (mut update, mut reply) = (update, reply);
    loop {
        if let Some(bindings) = runtime.find::<Bindings>(update.user.as_str()) {
            let BindingsEvent::Change(back, unheard) =
                match bindings.send(BindingsEvent::Change(update, reply)) {
                    Ok(()) => return,
                    Err(SendError::Full(BindingsEvent::Change(_, reply))) => {
                        let _ = reply.send(Updated::Full); // a caller that has gone needs no answer
                        return;
                    }
                    Err(error) => error.into_event(), // it ended just now
                };
            (update, reply) = (back, unheard);
        }
        let mut place = Place::default();
        let updated = place.update(&update, Duration::ZERO);
        if place.registered.is_empty() {
            let _ = reply.send(updated); // nothing to remember
            return;
        }
        let Some(held) = net.user_places().take(update.source) else {
            let _ = reply.send(Updated::Full);
            return;
        };
        let bindings = Bindings {
            user: update.user.clone(),
            place,
            asked: Some((reply, updated)),
            source: update.source,
            _held: held,
        };
        let user = update.user.clone();
        match runtime.submit(bindings).key(user).detach() {
            Ok(_) => return,
            Err(refused) => {
                let in_use = refused.reason() == RefusedReason::KeyInUse;
                let Some((unheard, _)) = refused.into_operation().asked else {
                    return;
                };
                if !in_use {
                    let _ = unheard.send(Updated::Full);
                    return;
                }
                reply = unheard; // another REGISTER was first: send to its fom
            }
        }
    }
}

impl ContactsTransitions for Bindings {
    fn resume(&mut self, cx: &mut Cx<'_, BindingsEvent>, _: &mut Contacts) -> Result<(), BoxError> {
        let net = cx.resource::<Net>();
        net.counters().bindings.add();
        self._held = net.user_places().keep(self.source);
        Ok(())
    }

    async fn known(
        &mut self,
        cx: &mut Cx<'_, BindingsEvent>,
    ) -> Result<ContactsAfterKnown, BoxError> {
        let deadline = cx
            .deadline()
            .map_or_else(|| since_start(cx.now()) + LONGEST, since_start);
        let begun = |now| LONGEST - Duration::min(LONGEST, deadline.saturating_sub(now));
        let told = self.tell(cx, begun(since_start(cx.now()))).await;
        if let Some((reply, updated)) = self.asked.take()
            && told.is_ok()
        {
            let _ = reply.send(updated); // the caller may not wait any more
        }
        loop {
            let Some(last) = self.place.last() else {
                return Ok(ContactsAfterKnown::Gone);
            };
            let left = last.saturating_sub(begun(since_start(cx.now())));
            if left.is_zero() {
                return Ok(ContactsAfterKnown::Gone);
            }
            let Some(BindingsEvent::Change(update, reply)) = cx.event_within(left).await else {
                continue;
            };
            // From here on the times count from the next visit.
            let mut place = self.place.clone();
            place.pass(begun(since_start(cx.now())));
            let updated = place.update(&update, Duration::ZERO);
            if update.asks_only() || !matches!(updated, Updated::Bindings(_)) {
                let _ = reply.send(updated);
                continue;
            }
            self.place = place;
            self.asked = Some((reply, updated));
            return Ok(ContactsAfterKnown::Known);
        }
    }

    async fn known_late(
        &mut self,
        _: &mut Cx<'_, BindingsEvent>,
    ) -> Result<ContactsAfterKnown, BoxError> {
        Ok(ContactsAfterKnown::Gone)
    }
}

impl Bindings {
    /// Tells the locator, `begun` after these times were set.
    async fn tell(
        &self,
        cx: &mut Cx<'_, BindingsEvent>,
        begun: Duration,
    ) -> Result<(), Unanswered> {
        let now = since_start(cx.now());
        let bindings: Vec<Registered> = self.place.at(now, begun);
        let user = self.user.clone();
        cx.call(|locator: &Locator, reply| locator.put(user, bindings, reply))
            .await
    }
}
