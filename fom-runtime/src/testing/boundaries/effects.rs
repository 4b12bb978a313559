//! The world outside, as a test sees it: what was done there, and under which key.

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::sync::Mutex;

/// A stand-in for whoever is called from a phase: it keeps what it was asked to do, once for each key, as a service that
/// knows idempotency keys does.
///
/// Each [`Trial`](super::Trial) has one, which phase functions reach as a resource: `cx.resource::<Effects>()`. It is compared
/// by itself: after a crash the same must have been done as without one, and each key must have been used for one thing only.
#[derive(Clone, Debug, Default)]
pub struct Effects(Arc<Mutex<Vec<Effect>>>);

#[derive(Clone, Debug)]
struct Effect {
    key: String,
    what: String,
    asked: u32,
}

/// What was done, for comparing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// How often under different keys.
    pub(super) times: BTreeMap<String, usize>,
    /// How often it was asked for under one key at the most.
    pub(super) asked: BTreeMap<String, u32>,
    /// Keys that were used for two things.
    pub(super) reused: Vec<String>,
}

impl Effects {
    /// Nothing is done yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records an effect under this key, which is a [`StepKey`](crate::StepKey) or a key that the operation makes.
    /// Returns `false` if the same effect was recorded under this key before.
    pub fn once(&self, key: impl fmt::Display, what: impl Into<String>) -> bool {
        let (key, what) = (key.to_string(), what.into());
        let mut effects = self.0.lock();
        match effects
            .iter_mut()
            .find(|effect| effect.key == key && effect.what == what)
        {
            Some(effect) => {
                effect.asked += 1;
                false
            }
            None => {
                let asked = 1;
                effects.push(Effect { key, what, asked });
                true
            }
        }
    }

    /// What was done, in order.
    pub fn list(&self) -> Vec<String> {
        let effects = self.0.lock();
        effects.iter().map(|effect| effect.what.clone()).collect()
    }

    pub(super) fn done(&self) -> Done {
        let effects = self.0.lock();
        let mut done = Done::default();
        let mut keys = BTreeMap::<&str, &str>::new();
        for effect in effects.iter() {
            *done.times.entry(effect.what.clone()).or_default() += 1;
            let asked = done.asked.entry(effect.what.clone()).or_default();
            *asked = effect.asked.max(*asked);
            if let Some(first) = keys.insert(&effect.key, &effect.what) {
                done.reused.push(format!(
                    "the key {} was used for `{first}` and for `{}`; a step key names a visit, or the event that was taken last: \
                     give each effect its own `part` of that",
                    effect.key, effect.what
                ));
            }
        }
        done
    }
}

impl Done {
    /// In words, how it differs from what was done without a crash; `undone`: something lazy was lost, and is done again.
    pub(super) fn differs(&self, undisturbed: &Self, undone: bool) -> Vec<String> {
        let mut found = self.reused.clone();
        for (what, times) in &self.times {
            match undisturbed.times.get(what) {
                None => found.push(format!("`{what}` was done, which nobody did undisturbed")),
                Some(once) if times > once && !undone => found.push(format!(
                    "`{what}` was done under {times} keys, undisturbed under {once}: a repetition that nobody can tell from a \
                     new request"
                )),
                Some(_) => {}
            }
        }
        for (what, times) in &undisturbed.times {
            let now = self.times.get(what).copied().unwrap_or(0);
            if now < *times {
                found.push(format!(
                    "`{what}` was done {now} times, undisturbed {times} times"
                ));
            }
        }
        for (what, asked) in self.asked.iter().filter(|_| !undone) {
            let most = undisturbed.asked.get(what).copied().unwrap_or(0) + 1;
            if *asked > most {
                found.push(format!(
                    "`{what}` was asked for {asked} times under one key, and one crash makes {most} at the most"
                ));
            }
        }
        found
    }
}
