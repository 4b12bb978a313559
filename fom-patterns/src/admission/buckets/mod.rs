//! Token buckets: a rate for each client, class or rule, counted once for the whole runtime.

mod bucket;
mod rules;
#[cfg(all(test, not(fom_shuttle)))]
mod tests;

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    time::Duration,
};

use fom_protocol::{nanos, shrink::Shrink as _};
use fom_runtime::{Key, time::Instant};
use slab::Slab;
use tokio::sync::watch;

use self::{
    bucket::Level,
    rules::{List, Numbered},
};
pub use self::{
    bucket::Rate,
    rules::{Rule, Rules, Share},
};
use crate::admission::{Line, Next, Nudge, Policy, Request, Tags};

/// The most idle buckets that are kept. An idle bucket is kept until it is full again. If there are more, the ones
/// that fill soonest are forgotten.
const MOST_IDLE: usize = 16_384;

/// An invalid setting of a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The setting must not be zero.
    #[error("the {0} is zero, so no request would ever start; it must be at least one")]
    Zero(&'static str),
    /// The setting is out of range: its times cannot be counted.
    #[error("the {0} is out of range; each bucket must fill within ten years")]
    OutOfRange(&'static str),
    /// The share is more than all.
    #[error("{0} percent is more than all; write at most 100")]
    Percent(u8),
    /// The first setting is more than the second.
    #[error("the {0} is greater than the {1}; exchange them")]
    Order(&'static str, &'static str),
    /// No rule can have this name.
    #[error(
        "`{0}` cannot be the name of a rule; use letters, digits, `_` and `-`, at most 64 of them"
    )]
    RuleName(String),
    /// A rule has this name already.
    #[error("rule `{0}` exists already; stop it first, or set its rate")]
    RuleExists(String),
    /// No rule has this name.
    #[error("there is no rule `{0}`; see `Rules::list`")]
    NoSuchRule(String),
    /// The last rule matches all requests, and stays the last.
    #[error("the rule `default` is always the last one; set its rate instead")]
    DefaultRule,
}

/// Token buckets by [rules](Rules): each request needs a token of its bucket before it starts. Each bucket's requests
/// go first in, first out. Buckets with tokens take turns.
///
/// A bucket counts for the whole runtime, whatever the number of localities, so rates are exact. Over any time, at most
/// `burst` + `rate` × time requests of a bucket start. Times are on the runtime's clock. Nothing polls: when all queued
/// requests must wait, a timer is set for the first token. Sheds the newest request of the longest queue.
///
/// Memory: the buckets of queued requests, and at most 16384 idle buckets that are not full yet. If there are more, the
/// fullest idle buckets are forgotten. A forgotten bucket is full when it is used again.
#[derive(Debug)]
pub struct TokenBuckets {
    rules: Rules,
    changes: watch::Receiver<List>,
    /// The rules at the last look.
    known: Vec<Numbered>,
    buckets: Slab<Bucket>,
    index: HashMap<BucketKey, usize>,
    /// Buckets with requests, and with a token by now.
    ready: VecDeque<usize>,
    /// Buckets with requests, and with a token at this time.
    throttled: BTreeSet<(u64, usize)>,
    /// Buckets without requests, which are full at this time.
    idle: BTreeSet<(u64, usize)>,
    name: String,
}

/// The number of the rule, and the owner of the bucket.
type BucketKey = (u32, Option<Key>);

#[derive(Debug)]
struct Bucket {
    key: BucketKey,
    rate: Rate,
    level: Level,
    line: Line,
    state: State,
}

/// The list that a bucket is in.
#[derive(Clone, Copy, Debug)]
enum State {
    Idle(u64),
    /// A bucket emptied by cancels stays here until its turn.
    Ready,
    Throttled(u64),
}

impl TokenBuckets {
    /// Creates the policy, with this rate for all requests that no rule matches.
    pub fn new(default: Rate, share: Share) -> Self {
        let rules = Rules::new(default, share);
        let changes = rules.watch();
        let known = changes.borrow().rules.clone();
        Self {
            rules,
            changes,
            known,
            buckets: Slab::new(),
            index: HashMap::new(),
            ready: VecDeque::new(),
            throttled: BTreeSet::new(),
            idle: BTreeSet::new(),
            name: named(default, share),
        }
    }

    /// Creates the policy, with this rate for each client.
    pub fn per_client(rate: Rate) -> Self {
        Self::new(rate, Share::Client)
    }

    /// Returns the rules, which can be kept and changed while the policy is in use.
    pub fn rules(&self) -> Rules {
        self.rules.clone()
    }

    /// Returns the bucket of this request, by the rules at the last look.
    fn key_of(&self, tags: &Tags) -> Option<(BucketKey, Rate)> {
        let (number, rule) = rules::find(&self.known, tags)?;
        Some(((*number, rule.shared_by().of(tags)), rule.rate()))
    }

    fn put(&mut self, request: Request, now: u64) -> Result<(), Request> {
        let Some((key, rate)) = self.key_of(&request) else {
            return Err(request);
        };
        let place = match self.index.get(&key) {
            Some(place) => *place,
            None => {
                let place = self.buckets.insert(Bucket {
                    key: key.clone(),
                    rate,
                    level: Level::default(),
                    line: Line::new(),
                    state: State::Idle(0),
                });
                self.index.insert(key, place);
                self.idle.insert((0, place));
                place
            }
        };
        let bucket = &mut self.buckets[place];
        bucket.line.put(request);
        if let State::Idle(full_at) = bucket.state {
            self.idle.remove(&(full_at, place));
            self.sort(place, now);
        }
        Ok(())
    }

    /// Puts a bucket that is in no list into the right list.
    fn sort(&mut self, place: usize, now: u64) {
        let bucket = &mut self.buckets[place];
        let next = bucket.level.next(bucket.rate);
        if bucket.line.is_empty() {
            bucket.state = State::Idle(bucket.level.full_at());
            self.idle.insert((bucket.level.full_at(), place));
            self.forget(now);
        } else if next <= now {
            bucket.state = State::Ready;
            self.ready.push_back(place);
        } else {
            bucket.state = State::Throttled(next);
            self.throttled.insert((next, place));
        }
    }

    /// Forgets up to two idle buckets that are full again or above the limit.
    fn forget(&mut self, now: u64) {
        // Each new idle bucket removes up to two. So the list shrinks soon, and no call takes long.
        for _ in 0..2 {
            match self.idle.first() {
                Some(&(full_at, place)) if full_at <= now || self.idle.len() > MOST_IDLE => {
                    self.idle.remove(&(full_at, place));
                    let bucket = self.buckets.remove(place);
                    self.index.remove(&bucket.key);
                    self.index.shrink();
                    if self.buckets.is_empty() {
                        self.buckets.shrink_to_fit();
                    }
                }
                _ => return,
            }
        }
    }

    /// Matches all requests again, if the rules have changed.
    fn refresh(&mut self, now: u64) {
        // Never fails: the rules are here.
        if !self.changes.has_changed().unwrap_or_default() {
            return;
        }
        self.known
            .clone_from(&self.changes.borrow_and_update().rules);
        if let Some((_, default)) = self.known.last() {
            self.name = named(default.rate(), default.shared_by());
        }
        let mut requests = Vec::new();
        (self.ready, self.throttled, self.idle) = Default::default();
        let (known, index, idle) = (&self.known, &mut self.index, &mut self.idle);
        self.buckets.retain(|place, bucket| {
            while let Some(request) = bucket.line.take() {
                requests.push(request);
            }
            let rule = known.iter().find(|(number, _)| *number == bucket.key.0);
            let Some((_, rule)) = rule else {
                index.remove(&bucket.key);
                return false;
            };
            if rule.rate() != bucket.rate {
                bucket.level.change(bucket.rate, rule.rate(), now);
                bucket.rate = rule.rate();
            }
            bucket.state = State::Idle(bucket.level.full_at());
            idle.insert((bucket.level.full_at(), place));
            true
        });
        requests.sort_by_key(|request| request.number());
        for request in requests {
            // The last rule matches all requests.
            drop(self.put(request, now));
        }
    }
}

fn named(default: Rate, share: Share) -> String {
    format!("tbf {default} per={share}")
}

impl Policy for TokenBuckets {
    fn name(&self) -> &str {
        &self.name
    }

    fn enqueue(&mut self, request: Request, now: Instant) -> Result<(), Request> {
        let now = nanos(now - Instant::START);
        self.refresh(now);
        self.put(request, now)
    }

    fn get(&mut self, now: Instant, force: bool) -> Next {
        let now = nanos(now - Instant::START);
        self.refresh(now);
        while let Some(&(at, place)) = self.throttled.first()
            && (at <= now || force)
        {
            self.throttled.remove(&(at, place));
            self.buckets[place].state = State::Ready;
            self.ready.push_back(place);
        }
        self.ready.shrink();
        while let Some(place) = self.ready.pop_front() {
            let bucket = &mut self.buckets[place];
            let request = bucket.line.take();
            if request.is_some() {
                bucket.level.take(bucket.rate, now);
            }
            self.sort(place, now);
            if let Some(request) = request {
                return Next::Request(request);
            }
        }
        match self.throttled.first() {
            Some((at, _)) => Next::Throttled(Instant::START + Duration::from_nanos(*at)),
            None => Next::Empty,
        }
    }

    fn remove(&mut self, request: &Tags) -> Option<Request> {
        let (key, _) = self.key_of(request)?;
        let place = *self.index.get(&key)?;
        let bucket = &mut self.buckets[place];
        let found = bucket.line.remove(request.number());
        self.emptied(place);
        found
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Tags)) {
        for (_, bucket) in &self.buckets {
            bucket.line.iter().for_each(&mut *visitor);
        }
    }

    fn victim(&mut self) -> Option<Request> {
        let longest = self
            .buckets
            .iter()
            .max_by_key(|(_, bucket)| bucket.line.len());
        let place = longest.map(|(place, _)| place)?;
        let found = self.buckets[place].line.take_last();
        self.emptied(place);
        found
    }

    fn attached(&mut self, nudge: Nudge) {
        self.rules.attach(nudge);
    }
}

impl TokenBuckets {
    /// Notes that a request was taken out of this bucket without a token.
    fn emptied(&mut self, place: usize) {
        let bucket = &mut self.buckets[place];
        if bucket.line.is_empty()
            && let State::Throttled(at) = bucket.state
        {
            self.throttled.remove(&(at, place));
            bucket.state = State::Idle(bucket.level.full_at());
            self.idle.insert((bucket.level.full_at(), place));
        }
    }
}
