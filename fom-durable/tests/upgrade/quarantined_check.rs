//! A directory with records that cannot be read, or that a release could not read. A runtime quarantines them, and a check
//! reports them before.

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

use fom_durable::{RetryError, journal::FileJournal, prelude::*};
use fom_runtime::{snapshot::RestoreError, time::TestClock};

use crate::jobs::{Job, first, order, parked, second};
use crate::kit::{limited, one};

/// A directory that is removed when the test ends.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("fom-quarantined-{}-{next}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Returns every file with its bytes.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files: Vec<_> = fs::read_dir(&self.0)
            .unwrap()
            .map(|file| file.unwrap().path())
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .collect();
        files.sort();
        files
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A flipped bit in the record of one fom: the fom is quarantined, named by file and offset, and the rest runs. A check
/// of the directory says the same before, and changes nothing.
#[test]
fn damage_is_named_by_its_place() {
    limited(async || {
        let place = Place::new();
        let build = || {
            one(&TestClock::new())
                .journal_with(
                    FileJournal::options()
                        .segment_bytes(1 << 16)
                        .open(&place.0)
                        .unwrap(),
                )
                .operation::<first::Order>()
                .build()
                .unwrap()
        };
        let damaged;
        {
            let runtime = build();
            damaged = parked(&runtime, order("needle in the journal"), "a").id();
            parked(&runtime, order("other"), "b");
        }
        let needle = b"needle in the journal";
        for (path, mut bytes) in place.files() {
            let at: Vec<_> = bytes
                .windows(needle.len())
                .enumerate()
                .filter(|(_, window)| window == needle)
                .map(|(at, _)| at)
                .collect();
            for at in &at {
                bytes[*at] ^= 1;
            }
            if !at.is_empty() {
                fs::write(path, bytes).unwrap();
            }
        }
        let before = place.files();
        let builder = one(&TestClock::new()).operation::<first::Order>();
        let check = builder.check_journal(&place.0).unwrap();
        assert_eq!(place.files(), before, "nothing is changed");
        assert!(!check.is_clean());
        assert_eq!(check.foms.values().sum::<u64>(), 1);
        let runtime = build();
        let quarantined = runtime.quarantine().list();
        for quarantined in [&check.quarantine, &quarantined] {
            assert_eq!(quarantined.len(), 1);
            assert_eq!(quarantined[0].id, damaged);
            let reason = &quarantined[0].reason;
            let RestoreError::InJournal { file, offset, .. } = reason else {
                panic!("{quarantined:?}");
            };
            assert!(*offset > 0 && file.starts_with(&place.0), "{reason}");
            assert!(quarantined[0].bytes.is_empty() && quarantined[0].snapshot().is_none());
        }
        assert!(runtime.find::<first::Order>("b").is_some());
        assert!(matches!(
            runtime.quarantine().retry(damaged),
            Err(RetryError::Still(RestoreError::InJournal { .. }))
        ));
        runtime.quarantine().discard(damaged).await.unwrap();
        drop(runtime);
        assert!(build().quarantine().list().is_empty());
    });
}

/// The check says before a release which foms the release would strand.
#[test]
fn a_check_says_what_a_release_would_strand() {
    limited(async || {
        let place = Place::new();
        {
            let runtime = one(&TestClock::new())
                .journal(&place.0)
                .operation::<first::Order>()
                .operation::<Job<u32>>()
                .build()
                .unwrap();
            parked(&runtime, order("1"), "a");
            parked(&runtime, Job { what: 1u32 }, "b");
            parked(&runtime, order("3"), "c");
            let done = runtime.submit(order("2")).once("o").start().unwrap();
            done.cancel();
            assert!(done.await.is_err());
        }
        let before = place.files();
        let check = Runtime::builder()
            .operation::<first::Order>()
            .operation::<Job<u32>>()
            .check_journal(&place.0)
            .unwrap();
        assert!(check.is_clean(), "{check}");
        assert_eq!(check.foms.len(), 2);
        assert_eq!(check.outcomes, 1);
        let check = Runtime::builder()
            .operation::<second::Order>()
            .check_journal(&place.0)
            .unwrap();
        assert!(!check.is_clean());
        assert_eq!(check.quarantine.len(), 3);
        assert!(
            check
                .quarantine
                .is_sorted_by_key(|quarantined| quarantined.id)
        );
        let report = check.to_string();
        assert!(report.contains("3 would be quarantined"), "{report}");
        // One line per reason: with all the foms that it strands, a report would be as long as the journal.
        let first = check.quarantine[0].id;
        let alike = format!("  2 like {first} Order a in Park (version 1): ");
        assert!(report.contains(&alike), "{report}");
        assert!(!report.contains("Order c"), "{report}");
        assert_eq!(place.files(), before, "nothing is changed");
        assert!(
            Runtime::builder()
                .check_journal(place.0.join("nowhere"))
                .is_err()
        );
        assert!(!place.0.join("nowhere").exists());
    });
}
