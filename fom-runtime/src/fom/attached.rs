//! What other packages keep beside a fom, and tell of it: what the fom waits for, and how many requests it has.

use std::{
    any::Any,
    fmt,
    sync::{Arc, OnceLock, PoisonError, Weak},
    time::Duration,
};

use serde::Serialize;

use crate::{
    fom::{Cold, FomAddress, Header, WaitingFor},
    id::FomId,
};
use fom_protocol::sync::Mutex;

/// A part of a fom that another package keeps beside it. It tells listings what the header of the fom has no room for.
/// Other threads call it at any time.
///
/// A package attaches a part of its own with [`FomRef::attach`](crate::FomRef::attach), or lets the fom keep one with
/// [`FomAddress::attachment`].
pub trait Attached: Any + Send + Sync {
    /// Returns what the fom waits for. Called while the fom waits for a [`WaitKind`], the last that it
    /// [recorded](WaitKind::record). Returns nothing if that kind is not the kind of this part. Several waits mean that
    /// the fom goes on after any of them. Default: nothing.
    fn waits(&self, _kind: &WaitKind) -> Vec<Wait> {
        Vec::new()
    }

    /// Returns the number of requests that the fom has not taken, if this part counts them. Default: `None`.
    fn queued(&self) -> Option<usize> {
        None
    }

    /// Returns how long the fom has waited in waits of this part that are over. Default: zero.
    fn waited(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns the foms that must act before this fom goes on, for
    /// [`Inspect::deadlocks`](crate::observe::Inspect::deadlocks). Default: none.
    fn blockers(&self) -> Vec<Blocker> {
        Vec::new()
    }

    /// Returns whether this blocker, which [`blockers`](Self::blockers) returned, has been there all the time since.
    /// Default: whether `blockers` returns it again.
    fn still_blocks(&self, blocker: &Blocker) -> bool {
        self.blockers().contains(blocker)
    }
}

/// How many of the foms that a fom waits for are named in texts.
const NAMED: usize = 8;

/// A wait of a fom, as data. `Display` prints the wait in a few words. They name one holder, or up to eight foms if the
/// fom waits for the ends of several foms. They name the time only if no holder is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// The kind of thing that the fom waits for, such as `a request`.
    pub kind: &'static str,
    /// The name of that thing, if it has one.
    pub subject: Option<String>,
    /// What keeps that thing from the fom, as far as it is known. The first is named in texts.
    pub holders: Vec<Holder>,
    /// The locality of that thing, if it is in one.
    pub locality: Option<usize>,
    /// How long the fom has waited, if that is known.
    pub waited: Option<Duration>,
}

/// A fom or other code that has what a fom waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// The fom, if it is a fom.
    pub fom: Option<FomId>,
    /// The name in texts, such as `Transfer 12 in Move`.
    pub name: String,
    /// How it keeps the fom from going on.
    pub hold: Hold,
}

impl Holder {
    /// Returns a fom that holds another one up.
    pub(crate) fn fom(fom: &Header, hold: Hold) -> Self {
        let (operation, id, phase) = (fom.type_name(), fom.id(), fom.phase_name());
        let name = match fom.key() {
            Some(key) => format!("{operation} {id} (key {key}) in {phase}"),
            None => format!("{operation} {id} in {phase}"),
        };
        let fom = Some(id);
        Self { fom, name, hold }
    }
}

/// How a fom or other code keeps a fom from going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Hold {
    /// It has the thing that the fom waits for.
    Has,
    /// It waits for the same thing, in front of the fom.
    IsAhead,
    /// It is the thing itself: the fom waits for its end.
    MustEnd,
}

impl Hold {
    /// Returns the words before the name of a holder.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Has => ", held by ",
            Self::IsAhead => ", behind ",
            Self::MustEnd => " ",
        }
    }
}

impl Wait {
    /// Returns a wait of this kind, without details.
    pub fn of(kind: &'static str) -> Self {
        Self {
            kind,
            ..Self::default()
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [first, _, ..] = self.holders.as_slice()
            && first.hold == Hold::MustEnd
        {
            let named = self.holders.iter().take(NAMED);
            let names: Vec<_> = named.map(|one| one.name.as_str()).collect();
            let rest = if self.holders.len() > NAMED {
                ", .."
            } else {
                ""
            };
            let (count, kind, names) = (self.holders.len(), self.kind, names.join(", "));
            return write!(f, "{count} {kind}s: {names}{rest}");
        }
        f.write_str(self.kind)?;
        if let Some(subject) = &self.subject {
            write!(f, " `{subject}`")?;
        }
        if let Some(locality) = self.locality {
            write!(f, " in locality {locality}")?;
        }
        if let Some(first) = self.holders.first() {
            write!(f, "{}{}", first.hold.words(), first.name)?;
            if self.holders.len() > 1 {
                f.write_str(" and others")?;
            }
        } else if let Some(waited) = self.waited {
            write!(f, ", for {waited:?}")?;
        }
        Ok(())
    }
}

/// A fom that must act before another fom goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// The fom that must act.
    pub fom: FomAddress,
    /// The kind of thing that the other fom waits for, such as `the lock`.
    pub kind: &'static str,
    /// The name of that thing, if it has one.
    pub subject: Option<String>,
    /// How it keeps the other fom from going on.
    pub hold: Hold,
    /// The numbers of the wait and of what blocks it, so that the part knows both again.
    pub numbers: (u64, u64),
}

/// A kind of wait that a package adds to those of the runtime. Each kind is one `static`.
///
/// ```
/// use fom_runtime::extension::WaitKind;
///
/// static ANSWER: WaitKind = WaitKind::new("an answer of the printer");
/// // In a future, before it returns `Pending`. Outside a fom, the call does nothing.
/// ANSWER.record();
/// ```
#[derive(Debug)]
pub struct WaitKind {
    name: &'static str,
    number: OnceLock<u16>,
}

/// The kinds of this process, by number. The lock is that of std, because no model depends on its order.
static KINDS: std::sync::Mutex<Vec<&'static WaitKind>> = std::sync::Mutex::new(Vec::new());

impl WaitKind {
    /// Returns a kind with this name, such as `an answer of the printer`.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            number: OnceLock::new(),
        }
    }

    /// Returns the name of the kind.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Records that the fom that runs on this thread waits for this. A fom forgets it before each run.
    pub fn record(&'static self) {
        self.waiting_for().say();
    }

    /// As [`record`](Self::record), if this is the fom that runs on this thread.
    pub fn record_for(&'static self, fom: &FomAddress) {
        self.waiting_for().say_for(fom.header());
    }

    pub(super) fn waiting_for(&'static self) -> WaitingFor {
        let number = self.number.get_or_init(|| {
            let mut kinds = KINDS.lock().unwrap_or_else(PoisonError::into_inner);
            kinds.push(self);
            u16::try_from(kinds.len() - 1).unwrap_or(u16::MAX)
        });
        WaitingFor::Kind(*number)
    }

    /// Returns the kind with this number.
    pub(crate) fn of_number(number: u16) -> Option<&'static Self> {
        let kinds = KINDS.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.get(usize::from(number)).copied()
    }
}

/// Kinds are the same if they are the same `static`.
impl PartialEq for WaitKind {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for WaitKind {}

/// The parts of a fom that other packages keep beside it.
#[derive(Default)]
pub(crate) struct Attachments(Mutex<Vec<Slot>>);

/// One part, which the fom owns or not.
enum Slot {
    Owned(Arc<dyn Attached>),
    Shared(Weak<dyn Attached>),
}

impl Slot {
    fn get(&self) -> Option<Arc<dyn Attached>> {
        match self {
            Self::Owned(part) => Some(Arc::clone(part)),
            Self::Shared(part) => part.upgrade(),
        }
    }
}

impl Attachments {
    /// Returns the parts of a fom, in the order in which they came.
    pub(crate) fn of(fom: &Header) -> Vec<Arc<dyn Attached>> {
        let Some(rare) = fom.cold().and_then(Cold::rare) else {
            return Vec::new();
        };
        let slots = rare.attachments.0.lock();
        slots.iter().filter_map(Slot::get).collect()
    }

    /// Adds a part that another package owns.
    pub(crate) fn attach(&self, part: Weak<dyn Attached>) {
        let mut slots = self.0.lock();
        if slots.len() == slots.capacity() {
            slots.retain(|slot| match slot {
                Slot::Owned(_) => true,
                Slot::Shared(part) => part.strong_count() > 0,
            });
        }
        slots.push(Slot::Shared(part));
    }

    /// Adds a part that the fom keeps from its beginning.
    pub(crate) fn keep(&self, part: Arc<dyn Attached>) {
        self.0.lock().push(Slot::Owned(part));
    }

    /// Returns the part of this type that the fom keeps, if there is one.
    pub(super) fn find<T: Attached>(&self) -> Option<Arc<T>> {
        find(&self.0.lock())
    }

    /// As [`find`](Self::find). Makes the part if there is none.
    pub(super) fn find_or_make<T: Attached + Default>(&self) -> Arc<T> {
        let mut slots = self.0.lock();
        if let Some(part) = find(&slots) {
            return part;
        }
        let part = Arc::<T>::default();
        slots.push(Slot::Owned(Arc::clone(&part) as _));
        part
    }
}

fn find<T: Attached>(slots: &[Slot]) -> Option<Arc<T>> {
    let mut owned = slots.iter().filter_map(|slot| match slot {
        Slot::Owned(part) => Some(Arc::clone(part) as Arc<dyn Any + Send + Sync>),
        Slot::Shared(_) => None,
    });
    owned.find_map(|part| part.downcast().ok())
}
