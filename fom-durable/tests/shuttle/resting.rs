//! Recovered foms that rest: a caller that looks for one finds it, while others are made, end, and the runtime ends.

use std::sync::OnceLock;

use fom_durable::journal::EntryId;
use serde::{Deserialize, Serialize};

use super::*;

/// Waits for a word.
#[derive(Serialize, Deserialize)]
struct Guest;

#[fom(operation(Guest), event(Word))]
enum Stay {
    #[phase(start, sync, to(Gone), on(Go))]
    Room,
    #[phase(end)]
    Gone,
}

impl StayTransitions for Guest {
    fn room(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<StayAfterRoom, BoxError> {
        Ok(StayAfterRoom::Gone)
    }
}

const GUESTS: usize = 3;

/// A disk that keeps some guests, each with its number as key and as operation id, and their ids.
fn kept() -> (Disk, [FomId; GUESTS]) {
    type Kept = (Vec<(EntryId, Vec<u8>)>, [FomId; GUESTS]);
    static KEPT: OnceLock<Kept> = OnceLock::new();
    let (entries, ids) = KEPT.get_or_init(|| {
        let disk = Disk::default();
        let bench = disk.bench(1, |builder| builder);
        let ids = std::array::from_fn(|number| {
            let number = number as u64;
            let guest = bench.runtime.submit(Guest).key(number).once(number);
            guest.start().unwrap().id()
        });
        disk.wait_for_entries(GUESTS);
        bench.end(None);
        (disk.all(), ids)
    });
    (Disk::keeping(entries), *ids)
}

fn bench(disk: &Disk) -> Bench {
    disk.bench(1, |builder| builder.resident(1))
}

fn find(runtime: &Runtime, number: usize) -> Option<FomRef<Guest>> {
    runtime.find::<Guest>(number as u64)
}

/// A fom ends and makes room, while others look for resting foms by key, by operation id and by fom id: each is found,
/// once.
///
/// Seeded: a fom that is made without the door (an id was taken for one that is quarantined).
#[test]
fn looked_for_while_there_is_room() {
    check(1000, || {
        let (disk, ids) = kept();
        let bench = bench(&disk);
        let finds = {
            let runtime = bench.runtime.clone();
            thread::spawn(move || find(&runtime, 1).unwrap().id())
        };
        let submits = {
            let runtime = bench.runtime.clone();
            thread::spawn(move || {
                let refused = runtime.submit(Guest).key(2u64).start().unwrap_err();
                assert_eq!(refused.reason(), RefusedReason::KeyInUse);
                refused.live().unwrap().id()
            })
        };
        let again = bench.runtime.submit(Guest).once(0u64).start().unwrap();
        assert_eq!(again.id(), ids[0]);
        again.send(Word::Go).unwrap();
        again.wait().unwrap();
        assert_eq!(finds.join().unwrap(), ids[1]);
        assert_eq!(submits.join().unwrap(), ids[2]);
        block_on(bench.runtime.quiet());
        assert_eq!(bench.runtime.operations().passive, 0);
        for id in &ids[1..] {
            assert!(bench.runtime.cancel(*id));
        }
        block_on(bench.runtime.idle());
        assert!(ids.iter().all(|id| disk.back(*id) == 1));
        bench.end(Some(Shutdown::Drain));
    });
}

/// The runtime ends while foms are made and looked for: every thread ends, and foms that did not end are there at the
/// next start.
///
/// Seeded: an end of the runtime that does not tell the thread that looks after them (deadlock).
#[test]
fn looked_for_while_the_runtime_ends() {
    check(1000, || {
        let (disk, ids) = kept();
        let bench = bench(&disk);
        let finds = {
            let runtime = bench.runtime.clone();
            thread::spawn(move || find(&runtime, 1).is_some_and(|fom| fom.send(Word::Go).is_ok()))
        };
        let cancels = {
            let runtime = bench.runtime.clone();
            thread::spawn(move || runtime.cancel(ids[2]))
        };
        bench.runtime.shutdown_blocking(Shutdown::Now, NEVER);
        let (found, cancelled) = (finds.join().unwrap(), cancels.join().unwrap());
        bench.end(None);
        let bench = disk.bench(1, |builder| builder);
        let back = ids.map(|id| bench.runtime.cancel(id));
        assert!(back[0] && (back[1] || found) && (back[2] || cancelled));
        block_on(bench.runtime.idle());
        bench.end(Some(Shutdown::Drain));
    });
}

/// A submission has an operation id and the key of a resting fom, while there is room for another resting fom. The
/// submission is refused, and no thread waits for another.
///
/// Seeded: the key that is looked for with the lock on the ids held, as it was (deadlock).
#[test]
fn an_id_and_a_key_that_rests() {
    check(1000, || {
        let (disk, ids) = kept();
        let bench = bench(&disk);
        let ends = {
            let runtime = bench.runtime.clone();
            thread::spawn(move || find(&runtime, 0).unwrap().send(Word::Go).unwrap())
        };
        let submission = bench.runtime.submit(Guest).key(2u64).once(7u64);
        let refused = submission.start().unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::KeyInUse);
        assert_eq!(refused.live().unwrap().id(), ids[2]);
        ends.join().unwrap();
        bench.end(None);
    });
}

/// A fom ends while a caller waits for quiet. A resting fom takes its room, once, although both the thread that looks
/// after the resting foms and the waiting caller see the room.
///
/// Seeded: an end that does not say that there is room (deadlock); a look for room without the door, as it was (two
/// came back).
#[test]
fn no_more_than_there_is_room_for() {
    check(1000, || {
        let (disk, ids) = kept();
        let bench = bench(&disk);
        let quiet = {
            let runtime = bench.runtime.clone();
            thread::spawn(move || {
                block_on(runtime.quiet());
                assert!(runtime.operations().foms.len() <= 1);
            })
        };
        for id in ids {
            // The fom comes back by itself.
            disk.wait_for_back(id);
            let operations = bench.runtime.operations();
            assert!(operations.foms.len() <= 1, "{operations}");
            assert_eq!(disk.back(id), 1);
            assert!(bench.runtime.cancel(id));
        }
        quiet.join().unwrap();
        block_on(bench.runtime.idle());
        bench.end(Some(Shutdown::Drain));
    });
}
