//! Where users are: fixed endpoints, and the bindings that were registered (RFC 3261, 10).
//!
//! The locator is a stranger to the runtime, as a database or a directory server would be. A fom asks it with `cx.call`, and
//! owns no thread while it waits. This one has its answer at once, and so it answers in place, without a thread of its own.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fom_runtime::prelude::*;
use rsipstack::sip;
use serde::{Deserialize, Serialize};

use crate::sources::Source;
use crate::wire::saved;

/// The most users that are remembered.
pub(crate) const MOST_USERS: usize = 200_000;

/// The most bindings of one user.
const MOST_BINDINGS: usize = 8;

/// One place where a user can be reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Binding {
    /// The URI that becomes the Request-URI.
    #[serde(with = "saved::uri")]
    pub uri: sip::Uri,
    /// The address to send to.
    pub address: SocketAddr,
}

/// What the locator says about a user.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// All the places to ring.
    At(Vec<Binding>),
    /// The user is known, but has no place now.
    Away,
    /// The user is unknown.
    Unknown,
}

/// One wish in a REGISTER: to set this binding for `expires`, or to remove it if that is zero.
#[derive(Debug, Clone)]
pub struct Wish {
    /// The binding.
    pub binding: Binding,
    /// The lifetime of the binding.
    pub expires: Duration,
}

/// A REGISTER, in the form that the bindings take.
#[derive(Debug, Clone)]
pub struct Update {
    /// Where the REGISTER came from. A new user takes a place of this source.
    pub source: Source,
    /// The user of these bindings.
    pub user: String,
    /// The client's Call-ID: with `cseq` it orders the updates of one client (RFC 3261, 10.3 step 7).
    pub call_id: String,
    /// The number of this update.
    pub cseq: u32,
    /// True to remove every binding first (`Contact: *`).
    pub clear: bool,
    /// The bindings to set. If empty, the request only asks.
    pub wishes: Vec<Wish>,
}

/// What became of an [`Update`].
#[derive(Debug, Clone, PartialEq)]
pub enum Updated {
    /// Done: the user's bindings now, and the time that each has left.
    Bindings(Vec<(Binding, Duration)>),
    /// An older request that came late.
    OutOfOrder,
    /// Too many users, or too many bindings, or too much to do.
    Full,
}

/// The locator: knows where users are, and answers at once. Cheap to clone.
#[derive(Clone)]
pub struct Locator(Arc<Mutex<Option<Table>>>);

impl Locator {
    /// Starts the locator with its fixed endpoints. Several addresses of one user are taken in turn; with `fork` they
    /// all ring at once, as registered bindings do.
    ///
    /// # Errors
    ///
    /// An address is no part of a URI.
    pub fn start(fixed: &[(String, SocketAddr)], fork: bool) -> io::Result<Locator> {
        let table = Table::new(fixed, fork)?;
        Ok(Locator(Arc::new(Mutex::new(Some(table)))))
    }

    fn table(&self) -> MutexGuard<'_, Option<Table>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks up where `user` is at the time `now`.
    pub fn find(&self, user: &str, now: Duration, reply: Reply<Found>) {
        let found = self.table().as_mut().map(|table| table.find(user, now));
        // A stopped locator drops the reply unsent, and the runtime tells the caller.
        if let Some(found) = found {
            let _ = reply.send(found);
        }
    }

    /// Replaces the user's bindings.
    pub(crate) fn put(&self, user: String, bindings: Vec<Registered>, reply: Reply<()>) {
        let put = self.table().as_mut().map(|table| table.put(user, bindings));
        if put.is_some() {
            let _ = reply.send(());
        }
    }

    /// Stops the locator, as if the directory had crashed. Later callers get no answer.
    pub fn stop(&self) {
        self.table().take();
    }
}

impl fmt::Debug for Locator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locator").finish_non_exhaustive()
    }
}

/// The table of all users.
pub(crate) struct Table {
    users: HashMap<String, User>,
    fork: bool,
}

#[derive(Default)]
struct User {
    fixed: Vec<Binding>,
    turn: usize,
    place: Place,
}

/// The bindings that a user has registered.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) registered: Vec<Registered>,
}

/// One registered binding.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Registered {
    binding: Binding,
    until: Duration,
    call_id: String,
    cseq: u32,
}

impl Table {
    pub(crate) fn new(fixed: &[(String, SocketAddr)], fork: bool) -> io::Result<Table> {
        let mut table = Table {
            users: HashMap::new(),
            fork,
        };
        for (user, address) in fixed {
            let uri = format!("sip:{user}@{address}");
            let uri = sip::Uri::try_from(uri.as_str()).map_err(io::Error::other)?;
            let known = table.users.entry(user.clone()).or_default();
            known.fixed.push(Binding {
                uri,
                address: *address,
            });
        }
        Ok(table)
    }

    pub(crate) fn find(&mut self, user: &str, now: Duration) -> Found {
        let fork = self.fork;
        let Some(place) = self.users.get_mut(user) else {
            return Found::Unknown;
        };
        place.place.expire(now);
        let mut bindings: Vec<Binding> = place
            .place
            .registered
            .iter()
            .map(|registered| registered.binding.clone())
            .collect();
        if fork {
            bindings.extend(place.fixed.iter().cloned());
        } else if let Some(next) = place.fixed.get(place.turn % place.fixed.len().max(1)) {
            bindings.push(next.clone());
            place.turn = place.turn.wrapping_add(1);
        }
        if bindings.is_empty() {
            Found::Away
        } else {
            Found::At(bindings)
        }
    }

    pub(crate) fn update(&mut self, update: Update, now: Duration) -> Updated {
        if !self.users.contains_key(&update.user) {
            if update.wishes.iter().all(|wish| wish.expires.is_zero()) {
                return Updated::Bindings(Vec::new()); // nothing to remember
            }
            if self.users.len() >= MOST_USERS {
                return Updated::Full;
            }
        }
        let user = self.users.entry(update.user.clone()).or_default();
        user.place.update(&update, now)
    }

    fn put(&mut self, user: String, registered: Vec<Registered>) {
        if self.users.len() >= 2 * MOST_USERS {
            // The table no longer remembers users without a place, not even that they are known.
            self.users
                .retain(|_, user| !user.fixed.is_empty() || !user.place.registered.is_empty());
        }
        self.users.entry(user).or_default().place = Place { registered };
    }
}

impl Update {
    /// Returns true if the update changes nothing.
    pub(crate) fn asks_only(&self) -> bool {
        !self.clear && self.wishes.is_empty()
    }
}

impl Place {
    /// Applies an update: all of it or nothing.
    pub(crate) fn update(&mut self, update: &Update, now: Duration) -> Updated {
        self.expire(now);
        let mut changed = self.clone();
        if !changed.change(update, now) {
            return Updated::OutOfOrder;
        }
        if changed.registered.len() > MOST_BINDINGS {
            return Updated::Full;
        }
        *self = changed;
        let left = |registered: &Registered| {
            (
                registered.binding.clone(),
                registered.until.saturating_sub(now),
            )
        };
        Updated::Bindings(self.registered.iter().map(left).collect())
    }

    fn expire(&mut self, now: Duration) {
        self.registered.retain(|registered| registered.until > now);
    }

    /// Moves the times forward by `time`, so that what is left counts from here.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.expire(time);
        for registered in &mut self.registered {
            registered.until -= time;
        }
    }

    /// Returns the time at which the last binding expires.
    pub(crate) fn last(&self) -> Option<Duration> {
        self.registered.iter().map(|one| one.until).max()
    }

    /// Returns the bindings on another clock, which says `now` when this one says `time`.
    pub(crate) fn at(&self, now: Duration, time: Duration) -> Vec<Registered> {
        let mut place = self.clone();
        place.pass(time);
        for registered in &mut place.registered {
            registered.until += now;
        }
        place.registered
    }

    /// Applies all of the update or nothing of it.
    fn change(&mut self, update: &Update, now: Duration) -> bool {
        let older = |registered: &Registered| {
            registered.call_id == update.call_id && registered.cseq > update.cseq
        };
        let touched = |registered: &Registered| {
            update.clear
                || update
                    .wishes
                    .iter()
                    .any(|wish| wish.binding.uri == registered.binding.uri)
        };
        if self
            .registered
            .iter()
            .any(|registered| touched(registered) && older(registered))
        {
            return false;
        }
        self.registered.retain(|registered| !touched(registered));
        for wish in update.wishes.iter().filter(|wish| !wish.expires.is_zero()) {
            self.registered.push(Registered {
                binding: wish.binding.clone(),
                until: now + wish.expires,
                call_id: update.call_id.clone(),
                cseq: update.cseq,
            });
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(port: u16) -> Binding {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Binding {
            uri: sip::Uri::try_from(format!("sip:a@{address}").as_str()).expect("a URI"),
            address,
        }
    }

    fn table(fixed: &[u16], fork: bool) -> Table {
        let fixed = fixed.iter().map(|port| binding(*port)).collect();
        let user = User {
            fixed,
            ..User::default()
        };
        Table {
            users: HashMap::from([("fixed".to_owned(), user)]),
            fork,
        }
    }

    fn update(cseq: u32, port: u16, seconds: u64) -> Update {
        let wishes = vec![Wish {
            binding: binding(port),
            expires: Duration::from_secs(seconds),
        }];
        Update {
            source: Source::Rest,
            user: "a".to_owned(),
            call_id: "c".to_owned(),
            cseq,
            clear: false,
            wishes,
        }
    }

    const AT: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn fixed_endpoints_are_taken_in_turn_or_all() {
        let mut turns = table(&[1, 2], false);
        assert_eq!(turns.find("fixed", AT(0)), Found::At(vec![binding(1)]));
        assert_eq!(turns.find("fixed", AT(0)), Found::At(vec![binding(2)]));
        assert_eq!(turns.find("fixed", AT(0)), Found::At(vec![binding(1)]));
        assert_eq!(
            table(&[1, 2], true).find("fixed", AT(0)),
            Found::At(vec![binding(1), binding(2)])
        );
    }

    #[test]
    fn a_binding_ends_when_it_expires() {
        let mut table = table(&[], false);
        assert_eq!(table.find("a", AT(0)), Found::Unknown);
        assert_eq!(
            table.update(update(1, 9, 60), AT(0)),
            Updated::Bindings(vec![(binding(9), AT(60))])
        );
        assert_eq!(table.find("a", AT(59)), Found::At(vec![binding(9)]));
        assert_eq!(table.find("a", AT(60)), Found::Away);
    }

    #[test]
    fn an_update_that_comes_late_changes_nothing() {
        let mut table = table(&[], false);
        table.update(update(2, 9, 60), AT(0));
        assert_eq!(table.update(update(1, 9, 0), AT(1)), Updated::OutOfOrder);
        assert_eq!(
            table.update(update(2, 9, 60), AT(1)),
            Updated::Bindings(vec![(binding(9), AT(60))]),
            "sent again"
        );
        assert_eq!(
            table.update(update(3, 9, 0), AT(2)),
            Updated::Bindings(vec![])
        );
        assert_eq!(table.find("a", AT(3)), Found::Away);
    }

    #[test]
    fn one_user_cannot_have_any_number_of_bindings() {
        let mut table = table(&[], false);
        for port in 1..=MOST_BINDINGS as u16 {
            assert!(matches!(
                table.update(update(1, port, 60), AT(0)),
                Updated::Bindings(_)
            ));
        }
        assert_eq!(table.update(update(1, 99, 60), AT(0)), Updated::Full);
    }
}
