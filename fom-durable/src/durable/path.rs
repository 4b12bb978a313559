//! The last phases that a fom has left, as one number.

use fom_runtime::{
    __durability::{self as seam, Schema},
    machine::Graph,
};

/// The last phases that a fom has left, by their indexes in a schema.
///
/// The digits of the number are the indexes, to the base of the number of phases, the newest last. A 1 precedes them. So
/// a record has one byte for three phases of a machine of four, and four bytes for eight phases of a machine of ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path(u64);

/// The most phases in a path.
const MOST: u32 = 8;

/// The largest base with which [`MOST`] digits and the 1 before them are a `u64`.
const LARGEST: u64 = 234;

impl Default for Path {
    fn default() -> Self {
        Self(1)
    }
}

/// Returns the base of the paths of a machine with this many phases.
fn base(phases: usize) -> u64 {
    (phases as u64).max(2)
}

impl Path {
    /// Returns the path as a record has it. `None`: the fom has left no phase.
    pub(super) fn to_record(self) -> Option<u64> {
        (self != Self::default()).then_some(self.0)
    }

    /// Returns the path with this number in a record.
    pub(super) fn from_record(number: u64) -> Self {
        Self(number)
    }

    /// Adds the phase that the fom leaves, of a machine with this many phases.
    pub(super) fn leaves(&mut self, phase: usize, phases: usize) {
        let base = base(phases);
        // Constant exponents, so this is no loop.
        let limit = match base > LARGEST {
            true => base.pow(MOST - 2),
            false => base.pow(MOST - 1),
        };
        if self.0 >= 2 * limit {
            // The oldest phase is forgotten.
            self.0 = limit + self.0 % limit;
        }
        self.0 = self.0 * base + phase as u64;
    }

    /// Returns the indexes of the phases, the oldest first.
    pub(super) fn phases(self, phases: usize) -> Vec<usize> {
        let base = base(phases);
        let mut rest = self.0;
        let mut found = Vec::new();
        while rest >= base && found.len() < MOST as usize {
            found.push((rest % base) as usize);
            rest /= base;
        }
        found.reverse();
        found
    }

    /// Returns the names of the phases, the oldest first.
    pub(super) fn names(self, schema: &Schema) -> Vec<String> {
        let names: Vec<_> = seam::phases_of(schema).map(|(name, _)| name).collect();
        let indexes = self.phases(names.len()).into_iter();
        indexes
            .filter_map(|index| names.get(index).map(|&name| name.to_owned()))
            .collect()
    }

    /// Returns the path by the indexes of this release. A phase that the release no longer has is left out.
    pub(super) fn in_release(self, schema: &Schema, graph: &Graph) -> Self {
        let mut path = Self::default();
        if self == path {
            return path;
        }
        for name in self.names(schema) {
            if let Some(index) = seam::place_ever(graph, &name) {
                path.leaves(index, graph.phases().len());
            }
        }
        path
    }
}

#[cfg(all(test, not(fom_shuttle)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn left(left: &[usize], phases: usize) -> Path {
        let mut path = Path::default();
        for phase in left {
            path.leaves(*phase, phases);
        }
        path
    }

    #[test]
    fn a_short_path_takes_one_byte() {
        let bytes = |left_: &[usize], phases| {
            let mut out = Vec::new();
            if let Some(path) = left(left_, phases).to_record() {
                seam::put_varint(path, &mut out);
            }
            out.len()
        };
        assert_eq!(bytes(&[], 4), 0);
        assert_eq!(bytes(&[3, 3, 3], 4), 1);
        assert_eq!(bytes(&[4, 4, 4, 4], 5), 2);
        assert_eq!(bytes(&[9; 8], 10), 4);
        assert_eq!(bytes(&[254; 8], 255), 9);
    }

    proptest! {
        #[test]
        fn the_last_phases_are_there(phases in 1usize..256, steps in proptest::collection::vec(any::<usize>(), 0..30)) {
            let steps: Vec<_> = steps.iter().map(|step| step % phases).collect();
            let most = if phases > LARGEST as usize { 7 } else { 8 };
            let last = &steps[steps.len().saturating_sub(most)..];
            prop_assert_eq!(left(&steps, phases).phases(phases), last);
        }

        #[test]
        fn any_number_is_a_path(number: u64, phases in 0usize..256, phase in 0usize..256) {
            let mut path = Path::from_record(number);
            prop_assert!(path.phases(phases).len() <= 8);
            prop_assert!(path.phases(phases).iter().all(|index| *index < phases.max(2)));
            path.leaves(phase % phases.max(1), phases);
        }
    }
}
