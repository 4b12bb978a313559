//! The traits that `#[fom]` implements for a declaration.

use std::{
    any::{Any, type_name},
    fmt,
    future::Future,
    marker::PhantomData,
};

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    defaults::NoEvent,
    fom::{Entry, RunningFom},
    gate::Gate,
    graph::Graph,
    snapshot::{
        self, Fields, Meta, Migration, RestoreError, Saved, Snapshot, SnapshotError, Values,
    },
};

/// An operation with its machine. `#[fom]` implements this trait; do not implement it by hand.
///
/// The required items of this trait are for generated code only, and may change in any release. No `unsafe` code relies
/// on what an implementation returns. The runtime borrows none of its own state while it calls these functions.
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
    /// The error of the phase functions.
    type Error: Send + 'static;
    /// The events that can be sent to a fom.
    type Event: Send + 'static;
    /// What a fom of this operation is made of.
    #[doc(hidden)]
    type Form: Form<Self>;

    /// The phases, edges, flags and docs.
    const GRAPH: &'static Graph;
    /// The codec of a persistent operation; `None` for a transient one.
    const CODEC: Option<Codec<Self>> = None;
    /// When a transition counts as done, if there is a journal: `#[fom(durability = "..")]`.
    const DURABILITY: Durability = match Self::CODEC {
        Some(_) => Durability::Sync,
        None => Durability::None,
    };

    /// Returns the text of an error, as far as its type has one.
    #[doc(hidden)]
    const DESCRIBE: Describe<Self> = |_| String::from("an error");
    #[doc(hidden)]
    const START: Self::Phase;
    #[doc(hidden)]
    const INDEX: fn(Self::Kind) -> usize;

    /// Returns the phase of a new fom.
    fn start() -> Self::Phase {
        Self::START
    }
    /// Returns the name of a phase.
    fn kind(phase: &Self::Phase) -> Self::Kind;
    /// Returns the index of a phase in [`Graph::phases`](crate::machine::Graph).
    fn index(kind: Self::Kind) -> usize {
        Self::INDEX(kind)
    }
    /// Whether a phase takes this event. An event that the phase does not take is kept for a later phase.
    fn takes(kind: Self::Kind, event: &Self::Event) -> bool {
        let _ = (kind, event);
        false
    }
    /// Returns the gate of this phase, if it has one.
    #[doc(hidden)]
    fn gate(&self, phase: &Self::Phase, fom: RunningFom<'_, Self::Event>) -> Option<Box<dyn Gate>> {
        let _ = (phase, fom);
        None
    }
    /// Calls `resume` of the transitions. The runtime calls it once after it restored a fom from a record, before the
    /// function of the phase runs again.
    #[doc(hidden)]
    fn resumed(&mut self, at: At<'_, '_, Self::Phase, Self::Event>) -> Resumed<Self> {
        let _ = at;
        Ok(())
    }
}

/// When a transition counts as done, if there is a journal.
///
/// Declared for the operation: `#[fom(durability = "lazy")]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// A transition is done when it is on disk, before the next phase begins. A crash loses nothing that was reported.
    Sync,
    /// A transition is done at once, and on disk soon after. A crash can lose the transitions of the last 50 ms, and of
    /// the time that the write in progress has taken. The fom then continues from an earlier phase, or is gone if it
    /// began in that time. When the fom repeats the lost transitions, it also sends their messages again.
    Lazy,
    /// A transition is done at once, and never written. A crash loses the fom.
    None,
}

/// The result of a step: the next phase, or `None` if the fom stays in this visit and waits for the next event.
#[doc(hidden)]
pub type Stepped<O> = Result<Option<<O as Operation>::Phase>, <O as Operation>::Error>;

/// A function that turns errors of an operation into text.
#[doc(hidden)]
pub type Describe<O> = fn(&<O as Operation>::Error) -> String;

/// An error to turn into text. Of three `text` functions, the compiler takes the first with bounds that hold.
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

/// A function that turns errors of a type into text.
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

/// The result of `resume` for a restored fom.
#[doc(hidden)]
pub type Resumed<O> = Result<(), <O as Operation>::Error>;

/// Returns the gate of a phase, as [`Operation::gate`] does.
#[doc(hidden)]
pub fn gate(gate: impl Gate) -> Option<Box<dyn Gate>> {
    Some(Box::new(gate))
}

/// Goes to this phase.
#[doc(hidden)]
#[inline]
pub fn go<P, E>(phase: P) -> Result<Option<P>, E> {
    Ok(Some(phase))
}

/// Goes to this phase, if the step succeeded.
#[doc(hidden)]
#[inline]
pub fn to<P, E>(done: Result<(), E>, phase: P) -> Result<Option<P>, E> {
    match done {
        Ok(()) => Ok(Some(phase)),
        Err(error) => {
            // The phase was never entered, so a user's `Drop` must not see it. The phase has no data that could leak.
            std::mem::forget(phase);
            Err(error)
        }
    }
}

/// Stays in the phase.
#[doc(hidden)]
#[inline]
pub fn stay<P, E>() -> Result<Option<P>, E> {
    Ok(None)
}

/// The start of a step. Generated code makes the context of the phase function from `fom`.
#[doc(hidden)]
pub struct At<'a, 'fom, P, E: Send + 'static = NoEvent> {
    pub phase: &'a mut P,
    pub fom: RunningFom<'fom, E>,
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

/// A machine of plain functions only, without a future.
#[doc(hidden)]
pub trait SyncOperation: Operation {
    fn step(&mut self, at: At<'_, '_, Self::Phase, Self::Event>) -> Stepped<Self>;
}

/// What a fom of an operation is made of: each machine names its kind in [`Operation::Form`].
#[doc(hidden)]
pub trait Form<O: Operation> {
    /// Calls the function of `build` for this kind of machine.
    fn build<B: Build<O>>(build: B) -> B::Made;

    /// Returns one step as a future. A layer around the operation runs it in this form.
    fn step<'a>(
        operation: &'a mut O,
        at: At<'a, '_, O::Phase, O::Event>,
    ) -> impl Future<Output = Stepped<O>> + Send;
}

/// Something that is made for each kind of machine in its own way. [`Form::build`] calls one of the functions.
#[doc(hidden)]
pub trait Build<O: Operation> {
    type Made;

    fn synchronous(self) -> Self::Made
    where
        O: SyncOperation;

    fn asynchronous(self) -> Self::Made
    where
        O: AsyncOperation;
}

/// A machine of plain functions: header, operation and phase, no future.
#[doc(hidden)]
#[derive(Debug)]
pub enum Synchronous {}

impl<O: SyncOperation> Form<O> for Synchronous {
    #[inline(always)]
    fn build<B: Build<O>>(build: B) -> B::Made {
        build.synchronous()
    }

    async fn step<'a>(operation: &'a mut O, at: At<'a, '_, O::Phase, O::Event>) -> Stepped<O> {
        O::step(operation, at)
    }
}

/// A machine with async phases: one future for the whole run.
#[doc(hidden)]
#[derive(Debug)]
pub enum Asynchronous {}

impl<O: AsyncOperation> Form<O> for Asynchronous {
    #[inline(always)]
    fn build<B: Build<O>>(build: B) -> B::Made {
        build.asynchronous()
    }

    fn step<'a>(
        operation: &'a mut O,
        at: At<'a, '_, O::Phase, O::Event>,
    ) -> impl Future<Output = Stepped<O>> + Send {
        O::step(operation, at)
    }
}

/// A machine with a mistake in its definition. It never runs.
#[doc(hidden)]
#[derive(Debug)]
pub enum Unfinished {}

impl<O: Operation> Form<O> for Unfinished {
    fn build<B: Build<O>>(_: B) -> B::Made {
        unreachable!("it does not compile")
    }

    fn step<'a>(
        _: &'a mut O,
        _: At<'a, '_, O::Phase, O::Event>,
    ) -> impl Future<Output = Stepped<O>> + Send {
        std::future::pending()
    }
}

/// A value in a snapshot: any value that serde can write and read back.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be saved with its fom",
    label = "has no `Serialize` and `Deserialize`",
    note = "derive `Serialize` and `Deserialize` for it, or declare the machine `#[fom(transient)]`"
)]
pub trait Savable: Serialize + DeserializeOwned {}

// Otherwise rustc asks for `Serialize` and for `Deserialize` in two errors, in its own words.
#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> Savable for T {}

/// An operation that can be saved in every phase and restored: any operation that is not `#[fom(transient)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be saved: its machine is transient",
    note = "take `transient` off its `#[fom(..)]`, and derive `Serialize` and `Deserialize` for what it holds"
)]
pub trait Persistent: Operation + Savable {
    /// The migrations from earlier versions to this one, from the oldest on.
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

    /// Saves the operation and its phase.
    ///
    /// # Errors
    ///
    /// Fails if the `Serialize` of the operation or of a field fails.
    fn snapshot(&self, phase: &Self::Phase) -> Result<Snapshot, SnapshotError> {
        Snapshot::take(self, phase, Meta::default())
    }

    /// Restores the operation and its phase from a snapshot.
    ///
    /// # Errors
    ///
    /// Fails if the snapshot is damaged or is of another operation. Fails if it names a phase that this release does
    /// not have, or holds data that does not fit. Nothing is guessed.
    fn restore(snapshot: &Snapshot) -> Result<(Self, Self::Phase), RestoreError> {
        snapshot.open::<Self>()
    }
}

/// A phase from a record.
#[doc(hidden)]
pub type Loaded<O> = Result<<O as Operation>::Phase, RestoreError>;

/// The type of [`Operation::CODEC`].
#[doc(hidden)]
pub type MaybeCodec<O> = Option<Codec<O>>;

/// Returns the codec of a persistent operation.
#[doc(hidden)]
pub const fn codec<O: Persistent>() -> MaybeCodec<O> {
    Some(Codec::new())
}

type Save<O> = fn(&O, &<O as Operation>::Phase, Meta) -> Result<Snapshot, SnapshotError>;
type SaveBody<O> = fn(&O, &<O as Operation>::Phase, &mut Vec<u8>) -> Result<(), SnapshotError>;

/// The functions that save an operation. With them, code that knows only [`Operation`] can save it.
pub struct Codec<O: Operation> {
    pub(crate) save: Save<O>,
    /// Appends the body of the operation in this phase. After an error the bytes are as before.
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
    /// Returns the codec of a persistent operation.
    pub const fn new() -> Self {
        Self {
            save: Snapshot::take::<O>,
            save_body: snapshot::save::<O>,
        }
    }
}

/// Returns how the foms of a type are saved, or `None` if they are not.
pub(crate) const fn kept_codec<O: Operation>() -> Option<Codec<O>> {
    match (O::DURABILITY, O::CODEC) {
        (Durability::None, _) => None,
        (_, codec) => codec,
    }
}

/// Reads an event from bytes, if events of its type can be saved.
#[doc(hidden)]
pub type EventReader = fn(&[u8]) -> Result<Box<dyn Any + Send>, String>;

/// Reads events of type `E`, if they can be read. Of two functions, the compiler takes the first with bounds that hold.
#[doc(hidden)]
pub struct Events<E>(PhantomData<fn() -> E>);

impl<E> fmt::Debug for Events<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}

impl<E> Events<E> {
    pub const CONTEXT: Self = Self(PhantomData);
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

/// A function that reads events of a type.
#[doc(hidden)]
#[macro_export]
macro_rules! __event_reader {
    ($event:ty) => {
        |bytes| {
            use $crate::__private::{Readable as _, Unreadable as _};
            (&$crate::__private::Events::<$event>::CONTEXT).read(bytes)
        }
    };
}
