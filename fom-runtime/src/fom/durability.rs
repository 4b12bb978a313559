//! The seam for durability: what a runtime and its foms ask of the component that commits transitions.
//!
//! The only implementation is in `durable`. Without it, nothing is kept and nothing comes back.

use std::{any::Any, time::Instant};

use crate::{
    id::{FomId, KeyOf},
    snapshot::SetAside,
};

/// The component of one runtime that keeps what must survive the process.
///
/// A fom that came back may *rest*: the component has its bytes, and the runtime has no fom. The component makes the
/// fom when there is room, when its deadline passes, or when a caller asks for it.
pub(crate) trait Recorder: Any + Send + Sync {
    /// Returns the number of the journal, if there is one. No other journal has it.
    fn journal(&self) -> Option<u128>;

    /// Returns whether foms may rest at all.
    fn lets_foms_rest(&self) -> bool;

    /// Returns the number of foms that rest.
    fn resting(&self) -> usize;

    /// Makes the fom with this id, if it rests.
    fn revive(&self, id: FomId);

    /// Makes all foms that have this key and rest.
    fn revive_key(&self, of: &KeyOf);

    /// Makes as many resting foms as there is room for, and those with a passed deadline.
    fn settle(&self);

    /// Called when the clock was moved, and when the runtime takes less than before.
    fn poke(&self);

    /// Called when a fom that came back has ended.
    fn one_ended(&self, id: FomId);

    /// Called when a fom that came back has asked for its locks, or will not ask.
    fn has_asked(&self, id: FomId);

    /// Returns what is kept and cannot run, by id.
    fn set_aside(&self) -> Vec<SetAside>;

    /// Called when all localities have ended. The component commits what is left, and closes.
    fn close(&self);

    /// Blocks until the component is closed, or until `by`.
    fn wait_closed(&self, by: Instant);
}
