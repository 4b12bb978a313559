//! How many rows each part of the frame has.

use super::{
    super::model::{Model, Panel},
    tables::localities_in_row,
};

/// A part of the frame, in the order on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Machines,
    Phases,
    Foms,
    Localities,
    Warnings,
}

impl Part {
    pub(super) const ALL: [Self; 5] = [
        Self::Machines,
        Self::Phases,
        Self::Foms,
        Self::Localities,
        Self::Warnings,
    ];

    /// Returns the part of the keys.
    pub(super) fn of(panel: Panel) -> Self {
        match panel {
            Panel::Machines => Self::Machines,
            Panel::Foms => Self::Foms,
            Panel::Warnings => Self::Warnings,
        }
    }

    /// The parts that get rows first come first.
    const FIRST: [Self; 5] = [
        Self::Warnings,
        Self::Foms,
        Self::Machines,
        Self::Phases,
        Self::Localities,
    ];

    /// Returns how many rows each part can fill.
    pub(super) fn wanted(model: &Model, width: u16) -> [usize; 5] {
        let snapshot = &model.snapshot;
        let localities = snapshot.localities.len();
        let warnings = snapshot.warnings.as_ref().map_or(1, Vec::len);
        // The arrow keys reach the others.
        let used = snapshot.machines.iter().filter(|of| !of.is_unused);
        [
            used.count().max(1),
            snapshot.phases.len(),
            snapshot.foms.len().max(1),
            localities.div_ceil(localities_in_row(width)),
            warnings.max(1),
        ]
    }
}

/// Divides the lines of a frame: one row for each part in turn, and one more for the part of the keys. The head of a part takes
/// a line, too.
pub(super) fn shares(mut lines: usize, wanted: &[usize; 5], keys: Part) -> [usize; 5] {
    let mut shares = [0; 5];
    loop {
        let before = lines;
        for part in Part::FIRST.into_iter().chain([keys]) {
            let share = &mut shares[part as usize];
            let cost = if *share == 0 { 2 } else { 1 };
            if *share < wanted[part as usize] && cost <= lines {
                *share += 1;
                lines -= cost;
            }
        }
        if lines == before {
            return shares;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_divided_and_none_is_used_twice() {
        let many = [9; 5];
        assert_eq!(
            shares(22, &[1, 3, 20, 1, 2], Part::Machines),
            [1, 3, 10, 1, 2]
        );
        assert_eq!(shares(22, &many, Part::Machines), [5, 3, 3, 3, 3]);
        assert_eq!(shares(22, &many, Part::Foms), [3, 3, 5, 3, 3]);
        assert_eq!(shares(3, &many, Part::Machines), [0, 0, 0, 0, 2]);
        assert_eq!(shares(0, &many, Part::Machines), [0; 5]);
    }
}
