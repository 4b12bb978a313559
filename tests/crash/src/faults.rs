//! The disk faults in one life of a child, besides the kill point. They follow from one number.

use std::{io::ErrorKind, thread, time::Duration};

use fom_durable::journal::{
    JournalError,
    disk::{Fault, FaultyDisk, Operation},
};
use fom_runtime::error::BuildError;

use crate::{means::Means, random::Random};

/// The faults of one life.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(Vec<(Operation, u64, Fault)>);

impl Faults {
    /// Returns no faults for zero, and random faults for any other number.
    pub(crate) fn new(number: u64, means: Means) -> Self {
        let mut faults = Vec::new();
        if number == 0 {
            return Self(faults);
        }
        let mut random = Random::new(number);
        if means == Means::FullDisk {
            return Self::full(&mut random);
        }
        for _ in 0..=random.below(3) {
            let bytes = random.below(700) as usize;
            let error = random.one_of(&[ErrorKind::StorageFull, ErrorKind::Other]);
            let failing =
                random.one_of(&[Fault::Fail as fn(ErrorKind) -> Fault, Fault::FailAfter])(error);
            let slow = Duration::from_millis(20 + random.below(200));
            let (operation, within, fault) = match random.below(11) {
                0 | 1 => (Operation::Write, 200, Fault::Short(bytes)),
                2 | 3 => (Operation::Write, 200, Fault::Torn(bytes, error)),
                4 | 5 => (Operation::Sync, 200, failing),
                6 => (Operation::Create, 6, failing),
                7 => (Operation::Rename, 6, failing),
                8 | 9 => {
                    let slowly = Fault::before(move |_| thread::sleep(slow));
                    (Operation::Sync, 100, slowly)
                }
                _ => {
                    let rare = [
                        Operation::SyncDir,
                        Operation::Open,
                        Operation::Read,
                        Operation::List,
                        Operation::Remove,
                    ];
                    (random.one_of(&rare), 20, failing)
                }
            };
            // Most disks that fail once fail a few times.
            let (first, times) = (1 + random.below(within), random.one_of(&[1, 1, 2, 6]));
            faults.extend((first..first + times).map(|nth| (operation, nth, fault.clone())));
        }
        Self(faults)
    }

    /// The disk is full for a while: for new files, or for all writes, as on a copy-on-write disk.
    fn full(random: &mut Random) -> Self {
        const FULL: ErrorKind = ErrorKind::StorageFull;
        let mut faults = Vec::new();
        let anything = random.below(2) == 0;
        let (first, times) = (1 + random.below(60), 1 + random.below(120));
        for nth in first..first + times {
            let fault = Fault::Torn(random.below(700) as usize, FULL);
            if anything {
                faults.push((Operation::Write, nth, fault));
            }
        }
        let first = 1 + random.below(4);
        let creating = first..first + 1 + random.below(40);
        faults.extend(creating.map(|nth| (Operation::Create, nth, Fault::Fail(FULL))));
        Self(faults)
    }

    pub(crate) fn inject(&self, disk: &FaultyDisk) {
        for (operation, nth, fault) in &self.0 {
            disk.inject(*operation, *nth, fault.clone());
        }
    }

    /// Returns whether one of the faults may be why a runtime could not be built.
    pub(crate) fn explain(&self, error: &BuildError) -> bool {
        let failed = matches!(
            error,
            BuildError::Journal(error) if matches!(
                error.downcast_ref(),
                Some(JournalError::Full { .. } | JournalError::Io { .. })
            )
        );
        failed && !self.0.is_empty()
    }
}
