//! The machines of the program, known without their types.
//!
//! Hidden items here are for generated code and `fom-durable`.

use std::{
    any::{TypeId, type_name},
    fmt,
    marker::PhantomData,
    time::Duration,
};

use crate::{
    attempt::Tried,
    fom::{KeptValues, Priority, Resident, durability::KeptFom},
    graph::Graph,
    id::FomId,
    operation::{Durability, EventReader, Persistent, load},
    runtime::{Shared, keys::KeyClaim, spawn::restore},
    snapshot::{Encoded, RestoreError},
};

/// What was kept of a fom that comes back.
#[doc(hidden)]
pub struct Revival<'a> {
    pub shared: &'a Shared,
    pub id: FomId,
    pub body: Encoded<'a>,
    pub key: Option<KeyClaim>,
    /// The time before which the fom does not begin.
    pub after: Option<Duration>,
    pub visit: RevivedVisit,
    pub home: RevivedHome,
    pub priority: Priority,
    pub state: Box<dyn KeptFom>,
    /// What the fom carries.
    pub carried: KeptValues,
}

/// The visit of a fom that comes back.
#[doc(hidden)]
#[derive(Debug)]
pub struct RevivedVisit {
    /// The failed attempts at the phase, of which some may be forgotten. The times are on the runtime's clock.
    pub tried: Vec<Tried>,
    /// When the fom was submitted, and when it entered the phase, on the runtime's clock. A time before the start of the
    /// clock is negative, in two's complement.
    pub times: Option<(u64, u64)>,
    /// Whether the fom has taken a way out of a cancel.
    pub heard_cancel: bool,
    /// Whether the fom has taken the way out of a phase with `cancelled`.
    pub turned_back: bool,
    /// The number of failed attempts at the phase.
    pub attempt: u32,
    /// The rest of the deadline, in nanoseconds.
    pub left: Option<u64>,
    /// The rest of a deadline that an earlier phase keeps, and that phase.
    pub kept_left: Option<(u64, String)>,
}

/// The home of a fom that comes back.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct RevivedHome {
    /// The home that the fom had.
    pub index: usize,
    /// Whether the submission chose it, other than by the key.
    pub chosen: bool,
}

/// A fom that came back, in no queue yet.
#[doc(hidden)]
pub struct Revived(pub Resident);

impl fmt::Debug for Revival<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Revival({})", self.id)
    }
}

impl fmt::Debug for Revived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Revived")
    }
}

/// The functions of a persistent operation that is known only by the names in its records.
#[doc(hidden)]
pub trait Restorer: Sync {
    fn graph(&self) -> &'static Graph;
    fn type_id(&self) -> TypeId;
    fn durability(&self) -> Durability;
    fn type_name(&self) -> &'static str;
    /// Makes a fom of what was kept of it. The fom is not in a queue yet.
    fn revive(&self, revival: Revival<'_>) -> Result<Revived, RestoreError>;
    /// Checks whether operation and phase can be read.
    fn check(&self, body: Encoded<'_>) -> Result<(), RestoreError>;
}

struct Restoring<O>(PhantomData<fn() -> O>);

impl<O: Persistent> Restorer for Restoring<O> {
    fn graph(&self) -> &'static Graph {
        O::GRAPH
    }

    fn type_id(&self) -> TypeId {
        TypeId::of::<O>()
    }

    fn durability(&self) -> Durability {
        O::DURABILITY
    }

    fn type_name(&self) -> &'static str {
        type_name::<O>()
    }

    fn revive(&self, revival: Revival<'_>) -> Result<Revived, RestoreError> {
        let (operation, phase, unread) = load::<O>(revival.body)?;
        let fom = restore::<O>(revival, operation, phase)?;
        if !unread.is_empty() {
            *fom.cold_made().rare_made().unread.lock() = Some(Box::new(unread));
        }
        Ok(Revived(fom))
    }

    fn check(&self, body: Encoded<'_>) -> Result<(), RestoreError> {
        load::<O>(body).map(drop)
    }
}

/// A persistent operation that the program knows without naming its type.
#[doc(hidden)]
pub struct Registered {
    restorer: &'static dyn Restorer,
    reader: Option<EventReader>,
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registered({})", self.restorer.graph().name())
    }
}

impl Registered {
    /// Returns the entry for an operation. Generated code submits it, and `Builder::operation` for generic operations.
    #[must_use]
    pub const fn of<O: Persistent>() -> Self {
        Self {
            restorer: &Restoring::<O>(PhantomData),
            reader: None,
        }
    }

    /// Sets the reader of its events.
    #[must_use]
    pub const fn taking(mut self, reader: EventReader) -> Self {
        self.reader = Some(reader);
        self
    }

    #[must_use]
    pub fn reader(&self) -> Option<EventReader> {
        self.reader
    }

    #[must_use]
    pub fn restorer(&self) -> &'static dyn Restorer {
        self.restorer
    }
}

inventory::collect!(Registered);

/// Returns every operation of the program that is neither generic nor transient, in no order. Linking an operation is
/// enough.
#[doc(hidden)]
pub fn registered() -> impl Iterator<Item = &'static Registered> {
    inventory::iter::<Registered>.into_iter()
}

/// A machine that is not in a [`Registered`], because nothing of it is saved. Generated code submits it.
#[doc(hidden)]
#[derive(Debug)]
pub struct Machine(pub &'static Graph);

inventory::collect!(Machine);

/// Returns the graph of each machine of the program, sorted by operation and enum. Linking a machine is enough: nothing
/// of it needs to have run.
///
/// A machine with generic parameters is missing, because each of its types is another operation. `O::GRAPH` is the
/// graph of one.
///
/// ```
/// use fom_runtime::{machine, prelude::*};
///
/// struct Greeting;
///
/// #[fom(operation(Greeting), transient)]
/// enum Greet {
///     #[phase(start, sync, to(Said))]
///     Say,
///     #[phase(end)]
///     Said,
/// }
/// # impl GreetTransitions for Greeting {
/// #     fn say(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> { Ok(()) }
/// # }
///
/// let graphs = machine::all();
/// let greet = graphs.iter().find(|graph| graph.name() == "Greet").unwrap();
/// assert_eq!(greet.operation(), "Greeting");
/// assert_eq!(greet.edges().count(), 1);
/// ```
#[must_use]
pub fn all() -> Vec<&'static Graph> {
    let saved = registered().map(|entry| entry.restorer().graph());
    let transient = inventory::iter::<Machine>.into_iter();
    let mut graphs: Vec<_> = saved.chain(transient.map(|machine| machine.0)).collect();
    graphs.sort_by_key(|graph| (graph.operation(), graph.name()));
    graphs
}
