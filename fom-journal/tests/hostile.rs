//! Arbitrary bytes are read without a panic and without much memory.

#[path = "store/kit/mod.rs"]
mod kit;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    fs,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use fom_journal::{Batch, EntryId, FileJournal, Journal, read_hostile_segment};
use kit::{FIRST, Given, LINK, Place, open, put, small};
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};

/// Remembers the size of the largest allocation.
struct Watched;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: each function passes its arguments on to the system's allocator, and otherwise only counts.
unsafe impl GlobalAlloc for Watched {
    // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: `System` has the same contract.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `System.alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// Returns the bytes of a valid segment.
fn segment() -> Vec<u8> {
    let place = Place::new();
    let (mut journal, ..) = open(small(), place.path()).unwrap();
    for id in 0..4u64 {
        let mut batch = Batch::new();
        batch.put(EntryId(70_000 + id), &[id as u8; 40]);
        batch.put(EntryId(id), b"");
        batch.end_group();
        batch.delete(EntryId(70_000));
        batch.end_group();
        journal.commit(&batch).unwrap();
    }
    fs::read(&place.segments()[0]).unwrap()
}

fn reads_within_bounds(bytes: &[u8]) -> usize {
    LARGEST.store(0, Ordering::Relaxed);
    let entries = read_hostile_segment(bytes);
    let largest = LARGEST.load(Ordering::Relaxed);
    // A row of 16 bytes takes a little more in memory, and the capacity of a list may be twice its length.
    assert!(
        largest <= 8 * bytes.len() + 4096,
        "{largest} bytes of memory for {} bytes",
        bytes.len()
    );
    entries
}

/// A way to spoil a valid segment.
#[derive(Clone, Debug)]
enum Spoil {
    Flip(usize, u8),
    Number(usize, u64),
    Cut(usize),
    Copy(usize, usize, usize),
}

fn spoil() -> impl Strategy<Value = Spoil> {
    let at = 0usize..1024;
    let number = prop_oneof![
        Just(0),
        Just(u64::MAX),
        Just(1 << 31),
        Just(0xffff_ffff),
        any::<u64>()
    ];
    prop_oneof![
        (at.clone(), any::<u8>()).prop_map(|(at, with)| Spoil::Flip(at, with)),
        (at.clone(), number).prop_map(|(at, number)| Spoil::Number(at, number)),
        at.clone().prop_map(Spoil::Cut),
        (at.clone(), at, 0usize..300).prop_map(|(from, to, length)| Spoil::Copy(from, to, length)),
    ]
}

fn spoiled(bytes: &[u8], spoils: &[Spoil]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for spoil in spoils {
        match *spoil {
            Spoil::Flip(at, with) => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= with;
                }
            }
            Spoil::Number(at, number) => {
                for (byte, with) in bytes.iter_mut().skip(at).zip(number.to_le_bytes()) {
                    *byte = with;
                }
            }
            Spoil::Cut(at) => bytes.truncate(at),
            Spoil::Copy(from, to, length) => {
                let piece: Vec<u8> = bytes.iter().skip(from).take(length).copied().collect();
                for (byte, with) in bytes.iter_mut().skip(to).zip(piece) {
                    *byte = with;
                }
            }
        }
    }
    bytes
}

/// Corrects the checksums of the header and of the first frame, so that the reader gets past them to the fault.
fn with_checksums(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = |salt: u32, bytes: &[u8]| {
        let mut hasher = crc32fast::Hasher::new_with_initial(salt);
        hasher.update(bytes);
        hasher.finalize().to_le_bytes()
    };
    if bytes.len() < FIRST + 28 {
        return bytes;
    }
    bytes[..8].copy_from_slice(b"FOMJ\x01\0\0\0");
    let whole = crc(0, &bytes[..8]);
    bytes[8..12].copy_from_slice(&whole);
    let whole = crc(0, &bytes[12..40]);
    bytes[40..44].copy_from_slice(&whole);
    bytes[44..LINK].fill(0);
    let salt = u32::from_le_bytes(bytes[12..16].try_into().unwrap());
    let whole = crc(salt, &[&bytes[16..32], &bytes[LINK..LINK + 40]].concat());
    bytes[LINK + 40..LINK + 44].copy_from_slice(&whole);
    bytes[LINK + 44..FIRST].fill(0);
    let first: [u8; 8] = bytes[LINK + 8..LINK + 16].try_into().unwrap();
    bytes[FIRST + 16..FIRST + 24].copy_from_slice(&first);
    let changes = u32::from_le_bytes(bytes[FIRST + 8..FIRST + 12].try_into().unwrap()) as usize;
    if let Some(rows) = bytes.get(FIRST + 28..FIRST + 28 + changes.min(1 << 20) * 16) {
        let table = crc(salt, rows);
        bytes[FIRST + 24..FIRST + 28].copy_from_slice(&table);
    }
    let whole = crc(salt, &bytes[FIRST + 4..FIRST + 28]);
    bytes[FIRST..FIRST + 4].copy_from_slice(&whole);
    bytes
}

/// One test, since the allocator counts for the whole process.
#[test]
fn any_bytes_are_read_without_harm() {
    let good = segment();
    assert_eq!(reads_within_bounds(&good), 12, "all its changes");
    let until = Instant::now() + Duration::from_secs(20);
    let mut runner = TestRunner::new(Config::default());
    let spoils = proptest::collection::vec(spoil(), 1..6);
    let noise = proptest::collection::vec(any::<u8>(), 0..2_000);
    for case in 0..20_000 {
        let bytes = match case % 4 {
            0 => noise.new_tree(&mut runner).unwrap().current(),
            1 => with_checksums(noise.new_tree(&mut runner).unwrap().current()),
            2 => spoiled(&good, &spoils.new_tree(&mut runner).unwrap().current()),
            _ => with_checksums(spoiled(
                &good,
                &spoils.new_tree(&mut runner).unwrap().current(),
            )),
        };
        reads_within_bounds(&bytes);
        if case % 16 == 3 {
            whole_journal(&bytes);
        }
        if Instant::now() > until {
            assert!(case > 1_000, "only {case} cases in 20 seconds");
            break;
        }
    }
}

/// Opens a journal with these bytes as its only segment, and inspects it. The open may fail.
fn whole_journal(bytes: &[u8]) {
    let place = Place::new();
    fs::create_dir(place.path()).unwrap();
    fs::write(place.path().join("0000000000000001.log"), bytes).unwrap();
    LARGEST.store(0, Ordering::Relaxed);
    let _ = FileJournal::inspect(place.path(), &mut Given::default());
    // A journal without a manifest does not open.
    if let Ok((mut journal, ..)) = open(small().salvage(true), place.path()) {
        put(&mut journal, &[(70_000, b"later")]).unwrap();
    }
    let largest = LARGEST.load(Ordering::Relaxed);
    assert!(
        largest <= 8 * bytes.len() + (64 << 10),
        "{largest} bytes of memory"
    );
}
