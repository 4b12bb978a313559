//! The world outside, as a test sees it: the effects on it, and their keys.

use std::{collections::BTreeMap, fmt, sync::Arc};

use fom_protocol::sync::Mutex;

/// A stand-in for the services that a phase calls. It records each effect once for each key, as a service with
/// idempotency keys does.
///
/// Each [`Trial`](super::Trial) has one. Phase functions reach it as a resource: `cx.resource::<Effects>()`. The trial
/// compares the effects on its own: they must be the same with a crash and without. Each key must be used for one
/// effect only.
#[derive(Clone, Debug, Default)]
pub struct Effects(Arc<Mutex<Vec<Effect>>>);

#[derive(Clone, Debug)]
struct Effect {
    key: String,
    what: String,
    asked: u32,
}

/// The effects in a form that can be compared.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// For each effect, the number of different keys.
    pub(super) times: BTreeMap<String, usize>,
    /// For each effect, how often it was requested under one key at most.
    pub(super) asked: BTreeMap<String, u32>,
    /// Descriptions of keys that were used for two effects.
    pub(super) reused: Vec<String>,
}

impl Effects {
    /// Creates a stand-in without effects.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records an effect under this key, which is a [`StepKey`](fom_runtime::context::StepKey) or a key that the
    /// operation makes. Returns `false` if the same effect was recorded under this key before.
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

    /// Returns the effects in order.
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
    /// Returns the differences to the effects without a crash, as text. `undone`: something lazy was lost, and is done
    /// again.
    pub(super) fn differs(&self, undisturbed: &Self, undone: bool) -> Vec<String> {
        let mut found = self.reused.clone();
        for (what, times) in &self.times {
            match undisturbed.times.get(what) {
                None => found.push(format!("`{what}` was done, and never undisturbed")),
                Some(once) if times > once && !undone => found.push(format!(
                    "`{what}` was done under {times} keys, undisturbed under {once}: a repetition that no service can tell from a \
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
