//! Operations that can be saved and restored.

use std::fmt;

use crate::{
    operation::{Durability, Operation},
    savable::Savable,
    snapshot::{
        self, Encoded, Fields, Meta, Migration, Reader, RestoreError, Saved, Schema, Snapshot,
        SnapshotError, Unread, Values, fingerprint,
    },
};

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
        take(self, phase, Meta::default())
    }

    /// Restores the operation and its phase from a snapshot.
    ///
    /// # Errors
    ///
    /// Fails if the snapshot is damaged or is of another operation. Fails if it names a phase that this release does
    /// not have, or holds data that does not fit. Nothing is guessed.
    fn restore(snapshot: &Snapshot) -> Result<(Self, Self::Phase), RestoreError> {
        snapshot.open(&reader::<Self>())
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
#[doc(hidden)]
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
            save: take::<O>,
            save_body: save::<O>,
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

/// Saves an operation and its phase as a self-contained snapshot.
fn take<O: Persistent>(
    operation: &O,
    phase: &O::Phase,
    meta: Meta,
) -> Result<Snapshot, SnapshotError> {
    let mut body = Vec::new();
    save(operation, phase, &mut body)?;
    Snapshot::of(&Schema::bytes_of(O::GRAPH), &body, meta)
}

/// Appends the body of an operation in `phase`. After an error, `out` is as before.
fn save<O: Persistent>(
    operation: &O,
    phase: &O::Phase,
    out: &mut Vec<u8>,
) -> Result<(), SnapshotError> {
    let fingerprint = const { fingerprint(O::GRAPH) };
    // A graph has at most 255 phases.
    let index = O::index(O::kind(phase)) as u8;
    let fields = |values: &mut Values<'_>| O::save(phase, values);
    snapshot::write(fingerprint, index, fields, operation, out)
}

/// Reads an operation and its phase, and what this release does not know if it keeps that.
///
/// # Errors
///
/// Fails if the bytes do not fit this release. Nothing is guessed.
pub(crate) fn load<O: Persistent>(
    saved: Encoded<'_>,
) -> Result<(O, O::Phase, Unread), RestoreError> {
    let mut unread = Unread::default();
    let keep = const { O::KEEPS_UNKNOWN }.then_some(&mut unread);
    let (operation, phase) = saved.load(&reader::<O>(), keep)?;
    Ok((operation, phase, unread))
}

/// Returns what reads the bodies of an operation type.
fn reader<O: Persistent>() -> Reader<O::Phase> {
    Reader {
        graph: O::GRAPH,
        migrate: O::migrate,
        load: O::load,
    }
}
