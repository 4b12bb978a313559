//! Hostile bytes: whatever is in a snapshot, its schema or its body, reading gives a value or an error, never a panic.
//! Reading allocates no more than the bytes justify. The allocator counts the bytes of each thread
//! by itself.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    collections::HashMap,
};

use fom_runtime::{prelude::*, snapshot::Saved};
use proptest::{collection, prelude::*, sample::Index};
use serde::{Deserialize, Serialize};

use crate::record::{self, Bin, Record, encode, frame, inner};

struct Counting;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

fn count(bytes: usize) {
    // An error means that the thread is being taken down.
    let _ = BYTES.try_with(|count| count.set(count.get().saturating_add(bytes)));
}

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: requires of its caller what `System` requires.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are the promises that `System` requires.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: requires of its caller what `System` requires.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above; and the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }

    // SAFETY: requires of its caller what `System` requires.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    number: u64,
    items: Vec<Item>,
    notes: HashMap<String, Vec<[u64; 4]>>,
    parcel: Parcel,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Item {
    name: String,
    count: Option<i32>,
    way: Way,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Way {
    Post,
    Courier { name: String, price: f32 },
    Both(u8, Box<Way>),
}

/// As deep and as wide as the data say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Parcel {
    inner: Vec<Parcel>,
}

#[fom(operation(Order), version = 2, migrate(v1(counted)), retired("Old"))]
#[derive(Clone, Debug, PartialEq)]
enum Shop {
    #[phase(start, sync, to(Paying, Sent))]
    Received,
    #[phase(end, was = "Owing")]
    Paying {
        tries: Vec<u128>,
        #[phase(default)]
        way: Option<Way>,
    },
    #[phase(end)]
    Sent { label: String, parcels: Vec<Parcel> },
}

impl ShopTransitions for Order {
    fn received(&mut self, _: &mut Cx<'_>) -> Result<ShopAfterReceived, BoxError> {
        Err("it is never run".into())
    }
}

/// Touches all that a migration can touch.
fn counted(saved: &mut Saved) -> Result<(), BoxError> {
    if saved.phase() == "Paying" {
        let tries: Vec<u64> = saved.take("tries")?;
        saved.put("tries", &tries)?;
    }
    let order: Order = saved.operation()?;
    saved.set_operation(&order)?;
    Ok(())
}

fn order() -> Order {
    let item = |name: &str, way| Item {
        name: name.into(),
        count: Some(-2),
        way,
    };
    let courier = Way::Courier {
        name: "x".repeat(40),
        price: 1.5,
    };
    Order {
        number: 300,
        items: vec![
            item("pen", Way::Post),
            item("ink", Way::Both(1, Box::new(courier))),
        ],
        notes: HashMap::from([("a".into(), vec![[1, 2, 3, 4]; 3])]),
        parcel: Parcel {
            inner: vec![Parcel { inner: vec![] }; 3],
        },
    }
}

fn snapshots() -> Vec<Vec<u8>> {
    let phases = [
        Shop::Received,
        Shop::Paying {
            tries: vec![1, u128::from(u64::MAX)],
            way: Some(Way::Post),
        },
        Shop::Sent {
            label: "y".repeat(200),
            parcels: vec![order().parcel],
        },
    ];
    let taken = phases.map(|phase| order().snapshot(&phase).unwrap());
    let mut all = Vec::new();
    for snapshot in taken {
        let record = Record::of(&snapshot);
        all.extend([record.second(1), record.second(2)]);
        all.push(snapshot.as_bytes().to_vec());
    }
    all
}

/// Reads the bytes as a snapshot. Returns how many bytes were allocated for that.
fn read(bytes: &[u8]) -> usize {
    let before = BYTES.with(Cell::get);
    if let Ok(snapshot) = Snapshot::from_bytes(bytes) {
        let _ = (
            Order::restore(&snapshot),
            snapshot.phase(),
            snapshot.machine(),
            snapshot.version(),
        );
    }
    BYTES.with(Cell::get) - before
}

/// Returns the most that reading may allocate. An empty vector in a vector takes one byte in the snapshot, and 24 in
/// memory. A snapshot is read four times, and copied for migrations.
fn most(length: usize) -> usize {
    512 * length + 64 * 1024
}

/// A change to bytes, at a place.
#[derive(Clone, Debug)]
enum Change {
    Flip(Index, u8),
    Set(Index, u8),
    Cut(Index, usize),
    Insert(Index, Vec<u8>),
    /// A length of four gigabytes.
    Huge(Index, u8),
    Copy(Index, Index, usize),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let at = any::<Index>;
    let huge = prop_oneof![
        Just(0xc6u8),
        Just(0xdbu8),
        Just(0xddu8),
        Just(0xdfu8),
        Just(0xc9u8)
    ];
    let change = prop_oneof![
        (at(), 0..8u8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        (at(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (at(), 1..20usize).prop_map(|(at, length)| Change::Cut(at, length)),
        (at(), collection::vec(any::<u8>(), 1..20)).prop_map(|(at, new)| Change::Insert(at, new)),
        (at(), huge).prop_map(|(at, kind)| Change::Huge(at, kind)),
        (at(), at(), 1..40usize).prop_map(|(from, to, length)| Change::Copy(from, to, length)),
    ];
    collection::vec(change, 1..6)
}

fn changed(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        if bytes.is_empty() {
            break;
        }
        let length = bytes.len();
        match change {
            Change::Flip(at, bit) => bytes[at.index(length)] ^= 1 << bit,
            Change::Set(at, byte) => bytes[at.index(length)] = *byte,
            Change::Cut(at, many) => {
                let at = at.index(length);
                bytes.drain(at..(at + many).min(length));
            }
            Change::Insert(at, new) => {
                let at = at.index(length);
                bytes.splice(at..at, new.iter().copied());
            }
            Change::Huge(at, kind) => {
                let at = at.index(length);
                bytes.splice(at..at, [*kind, 0xff, 0xff, 0xff, 0xff]);
            }
            Change::Copy(from, to, many) => {
                let from = from.index(length);
                let part = bytes[from..(from + many).min(length)].to_vec();
                let to = to.index(length);
                bytes.splice(to..to, part);
            }
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Good snapshots of both formats and versions, changed anywhere, under a correct checksum.
    #[test]
    fn changed_snapshots(which in any::<Index>(), changes in changes()) {
        let all = snapshots();
        let good = &all[which.index(all.len())];
        let magic = *good.first_chunk::<4>().unwrap();
        let bytes = frame(&magic, &changed(good[4..good.len() - 4].to_vec(), &changes));
        let used = read(&bytes);
        prop_assert!(used <= most(bytes.len()), "{used} bytes for {}", bytes.len());
    }

    /// The operation, and a field of the phase, changed inside a snapshot that is otherwise whole.
    #[test]
    fn changed_values(sent in any::<bool>(), changes in changes(), version in 1..3u32) {
        let snapshot = Snapshot::from_bytes(snapshots()[if sent { 8 } else { 5 }].clone()).unwrap();
        let mut record = Record::of(&snapshot);
        record.operation = Bin(changed(record.operation.0, &changes));
        if let Some(field) = record.fields.values_mut().next_back() {
            field.0 = changed(std::mem::take(&mut field.0), &changes);
        }
        let bytes = record.second(version);
        let used = read(&bytes);
        prop_assert!(used <= most(bytes.len()), "{used} bytes for {}", bytes.len());
    }

    /// Any bytes as a schema and a body.
    #[test]
    fn any_schema_and_body(schema in collection::vec(any::<u8>(), 0..100), body in collection::vec(any::<u8>(), 0..100)) {
        #[derive(Serialize)]
        struct Second {
            meta: record::Meta,
            schema: Bin,
            body: Bin,
        }
        let meta = record::Meta { id: 0, attempt: 0, left: None };
        let bytes = frame(b"FOM2", &encode(&Second { meta, schema: Bin(schema), body: Bin(body) }));
        let used = read(&bytes);
        prop_assert!(used <= most(bytes.len()), "{used} bytes for {}", bytes.len());
    }
}

/// Nested lists that each promise more than there is: no memory is allocated for what is not there.
#[test]
fn no_room_is_made_for_what_is_not_there() {
    let snapshot = Snapshot::from_bytes(snapshots()[8].clone()).unwrap();
    let inner_ = b"\x81\xa5inner";
    for length in [
        b"\xdd\xff\xff\xff\xff".as_slice(),
        b"\xdd\x00\x10\x00\x00",
        b"\xdc\xff\xff",
        b"\x91",
    ] {
        for deep in [1, 10, 60, 100, 1_000, 100_000] {
            let mut record = Record::of(&snapshot);
            let parcels = [b"\x91".as_slice(), &[inner_, length].concat().repeat(deep)].concat();
            record.fields.insert("parcels".into(), Bin(parcels));
            let bytes = record.second(2);
            let used = read(&bytes);
            assert!(
                used <= most(bytes.len()),
                "{used} bytes for {}",
                bytes.len()
            );
            assert!(Order::restore(&Snapshot::from_bytes(bytes).unwrap()).is_err());
        }
    }
    assert_eq!(inner(&snapshot).len() + 8, snapshot.as_bytes().len());
}
