//! Versions that do not fit are quarantined, one fom each.

use std::cell::Cell;

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_runtime::{Builder, snapshot::RestoreError, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::jobs::{Go, PANICS, first, of_first, order, parked, shop};
use crate::kit::{limited, one};

/// A release with a migration that panics if `PANICS` is set, and a release that has forgotten the first version.
mod later {
    use super::*;

    /// Pieces are numbers now.
    pub(super) fn to_second(saved: &mut fom_runtime::snapshot::Saved) -> Result<(), BoxError> {
        assert!(!PANICS.with(Cell::get), "cannot migrate");
        let old: first::Order = saved.operation()?;
        let pieces = old.pieces.parse()?;
        saved.set_operation(&migrating::Order { pieces })?;
        Ok(())
    }

    pub(super) fn to_third(_: &mut fom_runtime::snapshot::Saved) -> Result<(), BoxError> {
        Ok(())
    }
}

mod migrating {
    use super::*;

    shop!(u32, version = 2, migrate(v1(super::later::to_second)));
}

mod forgetful {
    use super::*;

    shop!(u32, version = 3, migrate(v2(super::later::to_third)));
}

/// Four versions do not fit: a newer version than the program's, a forgotten version, a version that fails to migrate,
/// and a version with a migration that panics. Each quarantines its own fom, and a release that can read the fom takes
/// it in.
#[test]
fn versions_that_do_not_fit_are_quarantined() {
    limited(async || {
        let journal = MemoryJournal::new();
        {
            let runtime = of_first(&journal).build().unwrap();
            parked(&runtime, order("3"), "good");
            parked(&runtime, order("three"), "odd");
        }
        let with = |builder: Builder| builder.build().unwrap();
        let fresh = || one(&TestClock::new()).journal_with(journal.clone());
        let reasons = |runtime: &Runtime| -> Vec<RestoreError> {
            runtime
                .quarantine()
                .list()
                .into_iter()
                .map(|quarantined| quarantined.reason)
                .collect()
        };
        {
            let runtime = with(fresh().operation::<forgetful::Order>());
            let reasons = reasons(&runtime);
            assert_eq!(reasons.len(), 2, "{reasons:?}");
            assert!(
                reasons[0].to_string().contains("version 1"),
                "{}",
                reasons[0]
            );
        }
        {
            PANICS.with(|panics| panics.set(true));
            let runtime = with(fresh().operation::<migrating::Order>());
            PANICS.with(|panics| panics.set(false));
            let reasons = reasons(&runtime);
            assert_eq!(reasons.len(), 2, "{reasons:?}");
            assert!(
                reasons[0].to_string().contains("cannot migrate"),
                "{}",
                reasons[0]
            );
        }
        {
            let runtime = with(fresh().operation::<migrating::Order>());
            assert_eq!(
                runtime.find::<migrating::Order>("good").unwrap().phase(),
                "Park"
            );
            let reasons = reasons(&runtime);
            assert_eq!(reasons.len(), 1, "{reasons:?}");
            assert!(
                reasons[0].to_string().contains("invalid digit"),
                "{}",
                reasons[0]
            );
            parked(&runtime, migrating::Order { pieces: 9 }, "new");
        }
        let runtime = of_first(&journal).build().unwrap();
        assert!(runtime.find::<first::Order>("odd").is_some());
        let quarantined = runtime.quarantine().list();
        let newer = quarantined
            .iter()
            .find(|quarantined| quarantined.key == Some("new".into()))
            .unwrap();
        assert_eq!(newer.version, Some(2));
        assert!(
            newer.reason.to_string().contains("version 2"),
            "{}",
            newer.reason
        );
    });
}
