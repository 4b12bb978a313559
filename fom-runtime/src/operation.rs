//! What `#[fom]` generates from a declaration, as traits.

use std::{
    any::{Any, TypeId, type_name},
    fmt,
    future::Future,
    marker::PhantomData,
};

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Cx, Graph, LockSet, NoEvent,
    durable::{Event, Found, KeptBody, Revived},
    error::{RestoreError, SnapshotError},
    fom::Launch,
    snapshot::{self, Fields, Meta, Migration, Saved, Snapshot, Values},
};

/// An operation with its machine: implemented by `#[fom]`, never by hand.
///
/// The required items of this trait are for generated code only, and may change in any release. No `unsafe` code relies
/// on what an implementation returns. Its functions run while the runtime has lent nothing of its own.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no operation: no machine is declared for it",
    label = "no `#[fom(operation({Self}))]` enum",
    note = "declare its phases: `#[fom(operation({Self}))] enum ... {{ ... }}`"
)]
pub trait Operation: Sized + Send + 'static {
    /// The enum of phases, with their data.
    type Phase: Send + 'static;
    /// The names of the phases, without data.
    type Kind: Copy + Eq + fmt::Debug + Send + Sync + 'static;
    /// What a phase function may fail with.
    type Error: Send + 'static;
    /// What may be sent to it.
    type Event: Send + 'static;
    /// What a fom of it is made of.
    #[doc(hidden)]
    type Form: Launch<Self>;

    /// Phases, edges, flags and docs.
    const GRAPH: &'static Graph;
    /// How it is saved; `None` for a transient operation.
    const CODEC: Option<Codec<Self>> = None;
    /// When a transition of it counts as done, where there is a journal: `#[fom(durability = "..")]`.
    const DURABILITY: Durability = match Self::CODEC {
        Some(_) => Durability::Sync,
        None => Durability::None,
    };

    /// What an error of it says, as far as its type can say something.
    #[doc(hidden)]
    const DESCRIBE: Describe<Self> = |_| String::from("an error");
    #[doc(hidden)]
    const START: Self::Phase;
    #[doc(hidden)]
    const INDEX: fn(Self::Kind) -> usize;

    /// The phase that a new fom is in.
    fn start() -> Self::Phase {
        Self::START
    }
    /// The name of a phase.
    fn kind(phase: &Self::Phase) -> Self::Kind;
    /// The place of a phase in [`Graph::phases`](crate::Graph).
    fn index(kind: Self::Kind) -> usize {
        Self::INDEX(kind)
    }
    /// Whether a phase takes this event; what it does not take is kept for a later phase.
    fn takes(kind: Self::Kind, event: &Self::Event) -> bool {
        let _ = (kind, event);
        false
    }
    /// The locks that its function in this phase needs.
    #[doc(hidden)]
    fn locks(&self, phase: &Self::Phase, cx: &Cx<'_, Self::Event>) -> LockSet {
        let _ = (phase, cx);
        LockSet::new()
    }
    /// What `resume` of its transitions does; the runtime calls it once when a fom came out of a record, before it enters
    /// the function of its phase again.
    #[doc(hidden)]
    fn resumed(&mut self, at: At<'_, '_, Self::Phase, Self::Event>) -> Resumed<Self> {
        let _ = at;
        Ok(())
    }
}

/// When a transition counts as done, where there is a journal.
///
/// It is declared for the operation: `#[fom(durability = "lazy")]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// When it is on disk, before the next phase begins. Nothing that anybody was told of is lost at a crash.
    Sync,
    /// At once; it is on disk soon after. What was committed in the last 50 ms can be lost at a crash (and in the time that the
    /// write took which was on its way then): a fom goes on from an earlier phase, or, where it began in that time, is not there.
    /// What it sent in the lost transitions is sent again when they are made again.
    Lazy,
    /// It is never written: at a crash the fom is gone.
    None,
}

/// Why a phase function is run.
#[doc(hidden)]
#[derive(Debug)]
pub enum Entry<E> {
    /// The phase was entered (or is tried again, or restored).
    Enter,
    /// An event came that the phase waits for.
    Event(E),
    /// The deadline of the phase passed.
    Late,
    /// Its last attempt has failed.
    Exhausted,
    /// It has failed.
    Failed,
}

/// Where it goes from here.
#[doc(hidden)]
#[derive(Debug)]
pub enum Next<P> {
    /// To this phase.
    Go(P),
    /// It stays in this visit and waits for the next event.
    Stay,
}

/// What a step resolves to.
#[doc(hidden)]
pub type Stepped<O> = Result<Next<<O as Operation>::Phase>, <O as Operation>::Error>;

/// How the errors of an operation are put into words.
#[doc(hidden)]
pub type Describe<O> = fn(&<O as Operation>::Error) -> String;

/// An error, to be put into words: of its three functions the compiler takes the first whose bounds hold.
#[doc(hidden)]
#[derive(Debug)]
pub struct Described<'a, E>(pub &'a E);

#[doc(hidden)]
pub trait ByDisplay {
    fn text(&self) -> String;
}

impl<E: fmt::Display> ByDisplay for &&Described<'_, E> {
    fn text(&self) -> String {
        self.0.to_string()
    }
}

#[doc(hidden)]
pub trait ByDebug {
    fn text(&self) -> String;
}

impl<E: fmt::Debug> ByDebug for &Described<'_, E> {
    fn text(&self) -> String {
        format!("{:?}", self.0)
    }
}

#[doc(hidden)]
pub trait ByType {
    fn text(&self) -> String;
}

impl<E> ByType for Described<'_, E> {
    fn text(&self) -> String {
        format!("a `{}`", type_name::<E>())
    }
}

/// How errors of a type are put into words, as a function.
#[doc(hidden)]
#[macro_export]
macro_rules! __describe {
    () => {
        |error| {
            #[allow(unused_imports, reason = "one of them is used")]
            use $crate::__private::{ByDebug as _, ByDisplay as _, ByType as _};
            (&&&$crate::__private::Described(error)).text()
        }
    };
}

/// How a restored fom goes on.
#[doc(hidden)]
pub type Resumed<O> = Result<(), <O as Operation>::Error>;

/// To this phase.
#[doc(hidden)]
#[inline]
pub fn go<P, E>(phase: P) -> Result<Next<P>, E> {
    Ok(Next::Go(phase))
}

/// To this phase, if all went well.
#[doc(hidden)]
#[inline]
pub fn to<P, E>(done: Result<(), E>, phase: P) -> Result<Next<P>, E> {
    match done {
        Ok(()) => Ok(Next::Go(phase)),
        Err(error) => {
            // It was never entered: a `Drop` of the user's must not see it. It has no data that could leak.
            std::mem::forget(phase);
            Err(error)
        }
    }
}

/// No further for now.
#[doc(hidden)]
#[inline]
pub fn stay<P, E>() -> Result<Next<P>, E> {
    Ok(Next::Stay)
}

/// Where a step begins.
#[doc(hidden)]
pub struct At<'a, 'fom, P, E: Send + 'static = NoEvent> {
    pub phase: &'a mut P,
    pub cx: &'a mut Cx<'fom, E>,
    pub entry: Entry<E>,
}

impl<P, E: Send + 'static> fmt::Debug for At<'_, '_, P, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("At")
    }
}

/// A machine with an async phase: one future for the whole run.
#[doc(hidden)]
pub trait AsyncOperation: Operation {
    fn step(
        &mut self,
        at: At<'_, '_, Self::Phase, Self::Event>,
    ) -> impl Future<Output = Stepped<Self>> + Send;
}

/// A machine of plain functions only: no future at all.
#[doc(hidden)]
pub trait SyncOperation: Operation {
    fn step(&mut self, at: At<'_, '_, Self::Phase, Self::Event>) -> Stepped<Self>;
}

/// What can stand in a snapshot: everything that serde can write and read back.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be saved with its fom",
    label = "has no `Serialize` and `Deserialize`",
    note = "derive `Serialize` and `Deserialize` for it, or declare the machine `#[fom(transient)]`"
)]
pub trait Savable: Serialize + DeserializeOwned {}

// Else rustc asks for `Serialize` and for `Deserialize` in two errors, in its own words.
#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> Savable for T {}

/// An operation that can be saved in every phase and restored: all but `#[fom(transient)]` ones.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be saved: its machine is transient",
    note = "take `transient` off its `#[fom(..)]`, and derive `Serialize` and `Deserialize` for what it holds"
)]
pub trait Persistent: Operation + Savable {
    /// How what earlier versions saved becomes what this one would have, from the oldest on.
    #[doc(hidden)]
    const MIGRATIONS: &'static [Migration] = &[];
    #[doc(hidden)]
    fn migrate(saved: &mut Saved) -> Result<(), RestoreError> {
        saved.migrate(Self::GRAPH.name(), Self::GRAPH.version(), Self::MIGRATIONS)
    }

    #[doc(hidden)]
    fn save(phase: &Self::Phase, values: &mut Values<'_>) {
        let _ = (phase, values);
    }
    #[doc(hidden)]
    fn load(phase: &str, fields: &mut Fields<'_>) -> Loaded<Self>;

    /// Saves the operation as it stands in `phase`.
    ///
    /// # Errors
    ///
    /// When the operation's or a field's own `Serialize` fails.
    fn snapshot(&self, phase: &Self::Phase) -> Result<Snapshot, SnapshotError> {
        Snapshot::take(self, phase, Meta::default())
    }

    /// The operation and its phase out of a snapshot.
    ///
    /// # Errors
    ///
    /// When the snapshot is damaged, is of another operation, names a phase that this release does not have, or holds
    /// data that does not fit. Nothing is guessed.
    fn restore(snapshot: &Snapshot) -> Result<(Self, Self::Phase), RestoreError> {
        snapshot.open::<Self>()
    }
}

/// A phase out of a record.
#[doc(hidden)]
pub type Loaded<O> = Result<<O as Operation>::Phase, RestoreError>;

/// What [`Operation::CODEC`] is.
#[doc(hidden)]
pub type MaybeCodec<O> = Option<Codec<O>>;

/// The codec of what can be saved.
#[doc(hidden)]
pub const fn codec<O: Persistent>() -> MaybeCodec<O> {
    Some(Codec::new())
}

type Save<O> = fn(&O, &<O as Operation>::Phase, Meta) -> Result<Snapshot, SnapshotError>;
type SaveBody<O> = fn(&O, &<O as Operation>::Phase, &mut Vec<u8>) -> Result<(), SnapshotError>;

/// How an operation is saved, as a value: lets code that knows only [`Operation`] save what can be saved.
pub struct Codec<O: Operation> {
    pub(crate) save: Save<O>,
    /// Appends the body of the operation in this phase; after an error the bytes are as they were.
    pub(crate) save_body: SaveBody<O>,
}

impl<O: Operation> fmt::Debug for Codec<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Codec")
    }
}

impl<O: Persistent> Default for Codec<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Persistent> Codec<O> {
    /// The codec of a persistent operation.
    pub const fn new() -> Self {
        Self {
            save: Snapshot::take::<O>,
            save_body: snapshot::save::<O>,
        }
    }
}

/// What can be done with a persistent operation whose type only its records name.
#[doc(hidden)]
pub trait Restorer: Sync {
    fn graph(&self) -> &'static Graph;
    fn type_id(&self) -> TypeId;
    fn durability(&self) -> Durability;
    fn type_name(&self) -> &'static str;
    /// Makes a fom of what is kept of one. It is in no queue yet.
    fn revive(&self, found: Found<'_>) -> Result<Revived, RestoreError>;
    /// Gives an event to whoever has this key.
    fn deliver(&self, event: Event<'_>) -> Result<(), RestoreError>;
    /// Whether that could be done.
    fn check(&self, kept: KeptBody<'_>) -> Result<(), RestoreError>;
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

    fn revive(&self, found: Found<'_>) -> Result<Revived, RestoreError> {
        found.revive::<O>()
    }

    fn deliver(&self, event: Event<'_>) -> Result<(), RestoreError> {
        event.deliver::<O>()
    }

    fn check(&self, kept: KeptBody<'_>) -> Result<(), RestoreError> {
        kept.check::<O>()
    }
}

/// A persistent operation that is known without anybody naming its type.
#[doc(hidden)]
pub struct Registered {
    restorer: &'static dyn Restorer,
    reader: Option<EventReader>,
}

/// An event out of bytes, if events of its type can be saved.
#[doc(hidden)]
pub type EventReader = fn(&[u8]) -> Result<Box<dyn Any + Send>, String>;

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registered({})", self.restorer.graph().name())
    }
}

impl Registered {
    /// What generated code submits, and `Builder::operation` for generic ones.
    #[must_use]
    pub const fn of<O: Persistent>() -> Self {
        Self {
            restorer: &Restoring::<O>(PhantomData),
            reader: None,
        }
    }

    /// Its events are read like this.
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

/// Reads events of type `E` if that can be done: of its two functions the compiler takes the one whose bounds hold.
#[doc(hidden)]
pub struct Events<E>(PhantomData<fn() -> E>);

impl<E> fmt::Debug for Events<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}

impl<E> Events<E> {
    pub const HERE: Self = Self(PhantomData);
}

#[doc(hidden)]
pub trait Readable {
    fn read(&self, bytes: &[u8]) -> Result<Box<dyn Any + Send>, String>;
}

impl<E: Savable + Send + 'static> Readable for Events<E> {
    fn read(&self, bytes: &[u8]) -> Result<Box<dyn Any + Send>, String> {
        let event: E = snapshot::decode(bytes)?;
        Ok(Box::new(event))
    }
}

#[doc(hidden)]
pub trait Unreadable {
    fn read(&self, bytes: &[u8]) -> Result<Box<dyn Any + Send>, String>;
}

impl<E> Unreadable for &Events<E> {
    fn read(&self, _: &[u8]) -> Result<Box<dyn Any + Send>, String> {
        Err("events of this type have no `Serialize` and `Deserialize`".to_owned())
    }
}

/// How events of a type are read, as a function.
#[doc(hidden)]
#[macro_export]
macro_rules! __event_reader {
    ($event:ty) => {
        |bytes| {
            use $crate::__private::{Readable as _, Unreadable as _};
            (&$crate::__private::Events::<$event>::HERE).read(bytes)
        }
    };
}

inventory::collect!(Registered);

/// Every operation of the program that is neither generic nor transient; linking it was enough. In no order.
#[doc(hidden)]
pub fn registered() -> impl Iterator<Item = &'static Registered> {
    inventory::iter::<Registered>.into_iter()
}
