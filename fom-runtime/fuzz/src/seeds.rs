//! The first inputs of the corpus: bytes that the library writes.

use std::{path::Path, time::Duration};

use fom_durable::{
    journal::{Batch, EntryId, FileJournal, Journal, MemoryJournal},
    prelude::*,
};
use fom_runtime::time::TestClock;

use super::{
    archive::pack,
    disk::Memory,
    record::piece_of,
    shop::{Payment, Shop, ShopKind, Way, order},
};

/// Returns inputs of [`journal`](super::journal()): several segments, each with its checksums unchanged and corrected.
pub fn journals() -> Vec<Vec<u8>> {
    let disk = Memory::default();
    let mut taken = Vec::new();
    for last in 0..2u64 {
        let options = FileJournal::options().segment_bytes(1024);
        let options = options.background(false).disk(disk.clone());
        let Ok(mut journal) = options.open(Path::new("journal")) else {
            continue;
        };
        for round in 0..6 + 8 * last {
            let mut batch = Batch::new();
            batch.put(EntryId(round % 3), &[round as u8; 20]);
            batch.put(EntryId(70_000 + round % 5), &[round as u8; 90]);
            batch.end_group();
            batch.put(EntryId(90_000), b"");
            batch.delete(EntryId(70_000 + (round + 2) % 5));
            batch.end_group();
            let _ = journal.commit(&batch);
            let _ = journal.tidy();
        }
        // The files after a kill, and after a close.
        taken.push(disk.files());
        drop(journal);
        taken.push(disk.files());
    }
    let mut inputs = Vec::new();
    for files in taken {
        let pieces = files.iter().filter_map(|(path, bytes)| {
            let name = path.file_stem()?.to_str()?;
            let number = match name {
                "MANIFEST" => 0,
                number => u8::from_str_radix(number.trim_start_matches('0'), 16).ok()?,
            };
            Some((number, &bytes[..]))
        });
        let archive = pack(pieces);
        for mode in 0..4u8 {
            inputs.push([&[mode][..], &archive].concat());
        }
    }
    inputs
}

/// Returns inputs of [`snapshot`](super::snapshot()): one of each phase.
pub fn snapshots() -> Vec<Vec<u8>> {
    let phases = [
        Shop::Received,
        Shop::Paying {
            tries: vec![1, u128::from(u64::MAX)],
            way: Some(Way::Post),
        },
        Shop::Sent {
            label: "y".repeat(40),
            parcels: vec![order(1).parcel],
        },
    ];
    let mut inputs = Vec::new();
    for phase in phases {
        if let Ok(snapshot) = order(300).snapshot(&phase) {
            let bytes = snapshot.as_bytes();
            inputs.push([&[0], bytes].concat());
            inputs.push([&[2], &bytes[4..bytes.len() - 4]].concat());
        }
    }
    inputs
}

/// Returns inputs of [`record`](super::record()) and [`restart`](super::restart()): foms with keys and ids, an outcome,
/// an event that no fom has taken, and the schemas.
pub fn records() -> Vec<Vec<u8>> {
    let journal = MemoryJournal::new();
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .clock(TestClock::new())
        .journal_with(journal.clone())
        .build();
    let Ok(runtime) = runtime else {
        return Vec::new();
    };
    let parked = runtime.submit(order(2)).key("ada").start();
    let _other = runtime
        .submit(order(4))
        .key((7u64, "b"))
        .once("four")
        .start();
    if let Ok(parked) = &parked {
        parked.reached([ShopKind::Paying]).wait();
    }
    let payment = Payment {
        order: "ada".into(),
    };
    if let Ok(fails) = runtime.submit(order(3)).once("three").start() {
        let _ = fails.wait();
    }
    if let Ok(pays) = runtime.submit(payment).once("pay").start() {
        let _ = pays.wait();
    }
    let kept = journal.fork();
    runtime.shutdown_blocking(Shutdown::Now, Duration::from_secs(5));
    let entries: Vec<_> = kept
        .ids()
        .into_iter()
        .filter_map(|id| Some((piece_of(id)?, kept.entry(id)?)))
        .collect();
    let (first, others): (Vec<_>, Vec<_>) = entries.iter().partition(|(piece, _)| *piece < 128);
    let mut inputs = vec![pack(
        entries.iter().map(|(piece, bytes)| (*piece, &bytes[..])),
    )];
    for one in others {
        let pieces = first.iter().copied().chain([one]);
        inputs.push(pack(pieces.map(|(piece, bytes)| (*piece, &bytes[..]))));
    }
    inputs
}
