//! Rules: which requests share a bucket, and at what rate. The rules change from outside while the buckets are in use.

use std::{fmt, sync::Arc};

use fom_protocol::sync::Mutex;
use fom_runtime::Key;
use tokio::sync::watch;

use super::{ConfigError, Rate};
use crate::admission::{Nudge, Tags};

/// The name of the rule for all requests that no other rule matches.
const DEFAULT: &str = "default";

/// The longest name of a rule, in bytes.
const LONGEST_NAME: usize = 64;

/// The requests of a rule that share a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Share {
    /// Each client has its own bucket.
    #[default]
    Client,
    /// Each class has its own bucket.
    Class,
    /// All requests share one bucket.
    All,
}

impl Share {
    pub(super) fn of(self, tags: &Tags) -> Option<Key> {
        match self {
            Self::Client => tags.client().cloned(),
            Self::Class => tags.class().cloned(),
            Self::All => None,
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "client",
            Self::Class => "class",
            Self::All => "all",
        })
    }
}

/// A rule of [`TokenBuckets`](super::TokenBuckets): the requests that the rule matches, and the rate of their buckets.
///
/// A rule matches the requests that fit all of its patterns. A rule without patterns matches all requests. In a
/// pattern, `*` stands for any text.
///
/// ```
/// use fom_patterns::admission::{Rate, Rule, Share};
///
/// let backup = Rule::new("backup", Rate::per_second(10)?.burst(2)?)?
///     .client("10.0.*")
///     .class("bulk")
///     .share(Share::All);
/// # Ok::<(), fom_patterns::admission::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rule {
    name: String,
    client: Option<String>,
    class: Option<String>,
    operation: Option<String>,
    share: Share,
    rate: Rate,
}

impl Rule {
    /// Creates a rule that matches all requests.
    ///
    /// # Errors
    ///
    /// Fails with [`ConfigError::RuleName`] unless the name consists of 1 to 64 ASCII letters, digits, `_` and `-`.
    pub fn new(name: impl Into<String>, rate: Rate) -> Result<Self, ConfigError> {
        let name = name.into();
        let is_fine = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_fine) {
            return Err(ConfigError::RuleName(name));
        }
        Ok(Self {
            name,
            client: None,
            class: None,
            operation: None,
            share: Share::default(),
            rate,
        })
    }

    /// Matches only clients that fit this pattern.
    pub fn client(mut self, pattern: impl Into<String>) -> Self {
        self.client = Some(pattern.into());
        self
    }

    /// Matches only classes that fit this pattern.
    pub fn class(mut self, pattern: impl Into<String>) -> Self {
        self.class = Some(pattern.into());
        self
    }

    /// Matches only operation types that fit this pattern.
    pub fn operation(mut self, pattern: impl Into<String>) -> Self {
        self.operation = Some(pattern.into());
        self
    }

    /// Sets which of the matched requests share a bucket. By default, each client has its own bucket.
    pub fn share(mut self, share: Share) -> Self {
        self.share = share;
        self
    }

    /// Returns the rule's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the rule's rate.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    pub(super) fn shared_by(&self) -> Share {
        self.share
    }

    fn matches(&self, tags: &Tags) -> bool {
        let fits = |pattern: &Option<String>, key: Option<&Key>| match (pattern, key) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(pattern), Some(Key::Text(text))) => is_like(text, pattern),
            (Some(pattern), Some(key)) => is_like(&key.to_string(), pattern),
        };
        let operation = self.operation.as_ref();
        fits(&self.client, tags.client())
            && fits(&self.class, tags.class())
            && operation.is_none_or(|pattern| is_like(tags.operation(), pattern))
    }
}

/// Returns whether the text fits the pattern.
fn is_like(text: &str, pattern: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else {
        return text == pattern;
    };
    let Some(mut rest) = text.strip_prefix(head) else {
        return false;
    };
    let (middle, last) = tail.rsplit_once('*').unwrap_or(("", tail));
    for part in middle.split('*').filter(|part| !part.is_empty()) {
        // The first place is as good as any: it leaves the most text for the rest of the pattern.
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// The rules of [`TokenBuckets`](super::TokenBuckets), which can be changed while the buckets are in use. A clone is
/// another handle to the same rules.
///
/// The newest rule that matches a request applies, unless rules were [ranked](Self::rank) otherwise. The rule named
/// `default` comes last. A change takes effect at the next look at the queue, and makes the queue look at once. Queued
/// requests are then matched again. A bucket keeps its tokens if its rule still exists.
#[derive(Clone)]
pub struct Rules(Arc<Shared>);

struct Shared {
    list: watch::Sender<List>,
    nudge: Mutex<Option<Nudge>>,
}

#[derive(Debug)]
pub(super) struct List {
    /// The first rule that matches applies. The last rule matches all requests.
    pub(super) rules: Vec<Numbered>,
    next: u32,
}

/// A rule, with a number that no other rule had. A rule that is stopped and started again gets another number.
pub(super) type Numbered = (u32, Rule);

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list()).finish()
    }
}

impl Rules {
    pub(super) fn new(rate: Rate, share: Share) -> Self {
        let default = Rule {
            name: DEFAULT.to_owned(),
            client: None,
            class: None,
            operation: None,
            share,
            rate,
        };
        Self(Arc::new(Shared {
            list: watch::Sender::new(List {
                rules: vec![(0, default)],
                next: 1,
            }),
            nudge: Mutex::new(None),
        }))
    }

    /// Adds a rule before all others.
    ///
    /// # Errors
    ///
    /// Fails with [`ConfigError::RuleExists`] if a rule has this name already.
    pub fn start(&self, rule: Rule) -> Result<(), ConfigError> {
        self.change(|list| match list.place(&rule.name) {
            Ok(_) => Err(ConfigError::RuleExists(rule.name)),
            Err(_) => {
                list.rules.insert(0, (list.next, rule));
                list.next += 1;
                Ok(())
            }
        })
    }

    /// Removes a rule. The requests that the rule matched go to the rules behind it.
    ///
    /// # Errors
    ///
    /// Fails with [`ConfigError::NoSuchRule`] if no rule has this name, and with [`ConfigError::DefaultRule`] for the
    /// last rule.
    pub fn stop(&self, name: &str) -> Result<(), ConfigError> {
        self.change(|list| {
            let place = list.place_of_own(name)?;
            list.rules.remove(place);
            Ok(())
        })
    }

    /// Changes the rate of a rule, also of the rule named `default`.
    ///
    /// # Errors
    ///
    /// Fails with [`ConfigError::NoSuchRule`] if no rule has this name.
    pub fn set_rate(&self, name: &str, rate: Rate) -> Result<(), ConfigError> {
        self.change(|list| {
            let place = list.place(name)?;
            list.rules[place].1.rate = rate;
            Ok(())
        })
    }

    /// Puts a rule right before another rule.
    ///
    /// # Errors
    ///
    /// Fails with [`ConfigError::NoSuchRule`] if no rule has one of the names, and with [`ConfigError::DefaultRule`]
    /// for the last rule, which stays last.
    pub fn rank(&self, name: &str, before: &str) -> Result<(), ConfigError> {
        self.change(|list| {
            let from = list.place_of_own(name)?;
            list.place(before)?;
            if name == before {
                return Ok(());
            }
            let rule = list.rules.remove(from);
            let to = list.place(before)?;
            list.rules.insert(to, rule);
            Ok(())
        })
    }

    /// Returns all rules, in the order in which they are looked at.
    pub fn list(&self) -> Vec<Rule> {
        let list = self.0.list.borrow();
        list.rules.iter().map(|(_, rule)| rule.clone()).collect()
    }

    fn change(
        &self,
        change: impl FnOnce(&mut List) -> Result<(), ConfigError>,
    ) -> Result<(), ConfigError> {
        let mut changed = Ok(());
        self.0.list.send_if_modified(|list| {
            changed = change(list);
            changed.is_ok()
        });
        let nudge = self.0.nudge.lock().clone();
        if let (Ok(()), Some(nudge)) = (&changed, nudge) {
            nudge.nudge();
        }
        changed
    }

    pub(super) fn attach(&self, nudge: Nudge) {
        *self.0.nudge.lock() = Some(nudge);
    }

    /// Returns a watch over the rules, which hears of each change.
    pub(super) fn watch(&self) -> watch::Receiver<List> {
        self.0.list.subscribe()
    }
}

impl List {
    fn place(&self, name: &str) -> Result<usize, ConfigError> {
        let place = self.rules.iter().position(|(_, rule)| rule.name == name);
        place.ok_or_else(|| ConfigError::NoSuchRule(name.to_owned()))
    }

    /// Returns the place of a rule that is not the last.
    fn place_of_own(&self, name: &str) -> Result<usize, ConfigError> {
        let place = self.place(name)?;
        if place + 1 == self.rules.len() {
            return Err(ConfigError::DefaultRule);
        }
        Ok(place)
    }
}

/// Returns the rule that applies. The last rule matches all requests.
pub(super) fn find<'a>(rules: &'a [Numbered], tags: &Tags) -> Option<&'a Numbered> {
    let own = rules.iter().find(|(_, rule)| rule.matches(tags));
    own.or(rules.last())
}

#[cfg(all(test, not(fom_shuttle)))]
mod tests {
    use super::is_like;

    /// NR-04 (as sanityn 77n): wildcards.
    #[test]
    fn wildcards_match_what_they_look_like() {
        for (text, pattern) in [
            ("10.0.0.7", "10.0.*"),
            ("10.0.0.7", "*"),
            ("10.0.0.7", "*.7"),
            ("10.0.0.7", "1*0*7"),
            ("", "*"),
            ("ab", "a**b"),
            ("abab", "*ab"),
        ] {
            assert!(is_like(text, pattern), "{text} {pattern}");
        }
        for (text, pattern) in [
            ("10.1.0.7", "10.0.*"),
            ("a", "a*a"),
            ("ab", "ab*b"),
            ("ab", "b"),
            ("", "a*"),
            ("axb", "a*y*b"),
        ] {
            assert!(!is_like(text, pattern), "{text} {pattern}");
        }
    }
}
