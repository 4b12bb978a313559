//! What a fom waits for, as data.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    clock::elapsed,
    fom::{Attached, Attachments, Header, Hold, Holder, Timing, Wait, WaitKind, WaitingFor},
    id::Key,
    instant::Instant,
    runtime::Shared,
};
use fom_protocol::FomState;
use serde::{Serialize, Serializer, ser::SerializeMap};

/// What a fom waits for. `Display` prints it in a few words.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitsFor {
    /// An event.
    Event {
        /// The events that the phase takes. Without any, only a wake, a deadline or a cancel ends the wait.
        takes: &'static [&'static str],
    },
    /// A timer, such as that of [`Cx::sleep`](crate::Cx::sleep), or the delay of [`after`](crate::Submission::after).
    Timer,
    /// The next attempt at the phase.
    NextAttempt {
        /// The number of that attempt. The first attempt at a phase has number 1.
        number: u32,
        /// When it begins, on the runtime's clock.
        at: Instant,
    },
    /// The fom's turn to begin: its key, or its place in its series.
    Turn {
        /// The name of the series, for a fom with a [series](crate::Submission::serial).
        series: Option<Key>,
        /// The foms that have the key or the series now.
        holders: Vec<Holder>,
        /// The number of foms that get it before this fom, without the holders.
        ahead: usize,
    },
    /// The [gate](crate::extension::Gate) of its phase.
    Gate,
    /// The end of another fom, through its handle.
    Fom,
    /// A resource, by the name of its type.
    Resource(&'static str),
    /// The commit of a transition.
    Journal,
    /// A blocking call.
    Blocking,
    /// Any other future.
    AnyFuture,
    /// Something of another package, such as a long lock or an active object.
    Package {
        /// The name of the [`WaitKind`](crate::extension::WaitKind).
        kind: &'static str,
        /// What the package tells of the wait.
        wait: Wait,
    },
}

/// A wait of a fom. `Display` prints what the fom waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitInfo {
    /// What the fom waits for.
    pub on: WaitsFor,
    /// How long the fom has waited for it. A wait for a turn counts from the submission, and a wait for an
    /// attempt from the failure of the last one. Packages measure their own waits. For other waits, this is the time
    /// in the phase, and the wait itself may be shorter.
    pub waited: Duration,
}

impl WaitInfo {
    /// Returns the waits of a fom. Several mean that the fom goes on after any of them.
    pub(super) fn of(fom: &Header) -> Vec<Self> {
        let is_waiting = matches!(fom.token.state(), FomState::Waiting | FomState::Running);
        if !is_waiting {
            return Vec::new();
        }
        let on = match fom.waiting.get() {
            WaitingFor::Nothing => return Vec::new(),
            WaitingFor::Kind(number) => return of_package(fom, WaitKind::of_number(number)),
            WaitingFor::Future => WaitsFor::AnyFuture,
            WaitingFor::Event => WaitsFor::Event {
                takes: fom.visit().info().takes(),
            },
            WaitingFor::Timer => WaitsFor::Timer,
            WaitingFor::Retry => WaitsFor::NextAttempt {
                number: fom.visit().attempt() + 1,
                at: Instant::from_nanos(
                    fom.timing().and_then(Timing::retry_at).unwrap_or_default(),
                ),
            },
            WaitingFor::Blocking => WaitsFor::Blocking,
            WaitingFor::Journal => WaitsFor::Journal,
            WaitingFor::Fom => WaitsFor::Fom,
            WaitingFor::Key => turn(fom),
            WaitingFor::Gate => WaitsFor::Gate,
            WaitingFor::Resource(place) => {
                WaitsFor::Resource(Shared::of(fom).resources.name(place))
            }
        };
        vec![Self::new(fom, on)]
    }

    /// Returns a wait of this fom, with its time.
    pub(super) fn new(fom: &Header, on: WaitsFor) -> Self {
        let in_phase = || fom.visit().age(fom.env().clock.nanos());
        let waited = match &on {
            WaitsFor::NextAttempt { .. } => {
                let last = fom.visit().attempts().pop();
                last.map_or_else(in_phase, |last| last.age)
            }
            WaitsFor::Turn { .. } => elapsed(fom.env().clock.nanos(), fom.identity.submitted()),
            WaitsFor::Package { wait, .. } => wait.waited.unwrap_or_else(in_phase),
            _ => in_phase(),
        };
        Self { on, waited }
    }

    /// Returns the foms and other code that the fom waits for, as far as they are known.
    pub fn holders(&self) -> &[Holder] {
        match &self.on {
            WaitsFor::Turn { holders, .. } => holders,
            WaitsFor::Package { wait, .. } => &wait.holders,
            _ => &[],
        }
    }
}

fn of_package(fom: &Header, kind: Option<&WaitKind>) -> Vec<WaitInfo> {
    let told = |part: &Arc<dyn Attached>| Some(part.waits(kind?));
    let parts = Attachments::of(fom);
    let mut told = parts.iter().filter_map(told);
    let mut waits = told.find(|waits| !waits.is_empty()).unwrap_or_default();
    let kind = kind.map_or("another package", WaitKind::name);
    if waits.is_empty() {
        waits.push(Wait::of(kind));
    }
    let info = |wait| WaitInfo::new(fom, WaitsFor::Package { kind, wait });
    waits.into_iter().map(info).collect()
}

fn turn(fom: &Header) -> WaitsFor {
    let series = fom.turn().serial().map(|of| of.key.clone());
    let (holders, ahead) = Shared::of(fom).key_index.before(fom);
    WaitsFor::Turn {
        series,
        holders: holders
            .iter()
            .map(|of| Holder::fom(of, Hold::Has))
            .collect(),
        ahead,
    }
}

impl WaitsFor {
    /// Returns the kind of the wait: the name that [`Filter::waits_for`](crate::observe::Filter::waits_for) takes, and
    /// that a [survey](crate::observe::Inspect::survey) counts by. For a wait of another package, it is the name of its
    /// [`WaitKind`].
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Event { .. } => "event",
            Self::Timer => "timer",
            Self::NextAttempt { .. } => "next attempt",
            Self::Turn { .. } => "turn",
            Self::Gate => "gate",
            Self::Fom => "fom",
            Self::Resource(_) => "resource",
            Self::Journal => "journal",
            Self::Blocking => "blocking",
            Self::AnyFuture => "future",
            Self::Package { kind, .. } => kind,
        }
    }
}

/// The kind, the text, the time in seconds, and what the kind has beside that.
impl Serialize for WaitInfo {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("kind", self.on.kind())?;
        map.serialize_entry("text", &self.on.to_string())?;
        map.serialize_entry("waited", &self.waited.as_secs_f64())?;
        match &self.on {
            WaitsFor::Event { takes } => map.serialize_entry("takes", takes)?,
            WaitsFor::NextAttempt { number, at } => {
                let at = at.duration_since(Instant::START).as_secs_f64();
                map.serialize_entry("number", number)?;
                map.serialize_entry("at", &at)?;
            }
            WaitsFor::Turn { series, ahead, .. } => {
                map.serialize_entry("series", &series.as_ref().map(Key::to_string))?;
                map.serialize_entry("ahead", ahead)?;
            }
            WaitsFor::Resource(name) => map.serialize_entry("resource", name)?,
            WaitsFor::Package { wait, .. } => {
                map.serialize_entry("subject", &wait.subject)?;
                map.serialize_entry("locality", &wait.locality)?;
            }
            _ => {}
        }
        map.serialize_entry("holders", self.holders())?;
        map.end()
    }
}

impl fmt::Display for WaitInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.on.fmt(f)
    }
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event { takes: [] } => f.write_str("an event, and its phase takes none"),
            Self::Event { takes } => write!(f, "an event: {}", takes.join(", ")),
            Self::Timer => f.write_str("a timer"),
            Self::NextAttempt { .. } => f.write_str("its next attempt"),
            Self::Turn {
                series,
                holders,
                ahead,
            } => {
                match series {
                    Some(series) => write!(f, "its turn in the series {series}")?,
                    None => f.write_str("its key")?,
                }
                if let Some(first) = holders.first() {
                    write!(f, "{}{}", first.hold.words(), first.name)?;
                }
                match (holders.len(), ahead) {
                    (0 | 1, 0) => Ok(()),
                    (_, 0) => f.write_str(" and others"),
                    (_, ahead) => write!(f, ", behind {ahead} more"),
                }
            }
            Self::Gate => f.write_str("the gate of its phase"),
            Self::Fom => f.write_str("another fom"),
            Self::Resource(name) => f.write_str(name),
            Self::Journal => f.write_str("the journal"),
            Self::Blocking => f.write_str("a blocking call"),
            Self::AnyFuture => f.write_str("a future"),
            Self::Package { wait, .. } => wait.fmt(f),
        }
    }
}
