//! Runtimes on other machines than this one: how many localities they have, on which processors, and where foms have
//! their homes.

use std::collections::BTreeMap;

use fom_runtime::{
    Cx,
    error::RefusedReason,
    prelude::*,
    topology::{Cpu, Machine, PlanOptions, plan},
};

use crate::kit::task::{limit, quick, task};

/// Processors given by core, package, cache and node.
fn machine(cpus: impl IntoIterator<Item = (usize, usize, usize, usize)>) -> Machine {
    Machine::from_cpus(cpus.into_iter().enumerate().map(|(id, place)| {
        let mut cpu = Cpu::new(id);
        (cpu.core, cpu.package, cpu.cache, cpu.node) = place;
        cpu
    }))
}

/// Three caches of five cores, two and one; the first cache's cores have two threads, the others' one.
fn uneven() -> Machine {
    let first = (0..10).map(|id| (id % 5, 0, 0, 0));
    machine(first.chain([(5, 0, 1, 0), (6, 0, 1, 0), (7, 1, 2, 1)]))
}

/// A machine with a cgroup that grants only this many processors.
fn paid_for(quota: usize) -> Machine {
    let mut parts = serde_json::to_value(Machine::synthetic(1, 2, 8, 2)).unwrap();
    parts["quota"] = quota.into();
    serde_json::from_value(parts).unwrap()
}

fn runtime(machine: &Machine, localities: Option<usize>) -> Runtime {
    let builder = Runtime::builder().machine(machine.clone());
    match localities {
        Some(localities) => builder.localities(localities),
        None => builder,
    }
    .build()
    .unwrap()
}

/// A runtime has the planned localities of its machine, in order, with their processors. It binds no thread to a
/// missing processor.
#[test]
fn localities_are_those_of_the_plan() {
    let _limit = limit();
    let wide = Machine::synthetic(8, 4, 8, 1);
    assert_eq!(wide.cores(), 256);
    assert_eq!(plan(&wide, &PlanOptions::default()).len(), 256);
    for (what, machine, asked, localities) in [
        ("one core", Machine::synthetic(1, 1, 1, 1), None, 1),
        ("two threads of it", Machine::synthetic(1, 1, 1, 2), None, 1),
        ("packages", Machine::synthetic(2, 4, 8, 1), None, 64),
        ("with threads", Machine::synthetic(2, 4, 8, 2), None, 64),
        ("by cache", Machine::synthetic(2, 4, 8, 2), Some(8), 8),
        ("by node", Machine::synthetic(2, 4, 8, 2), Some(2), 2),
        ("256 cores", wide, Some(64), 64),
        ("uneven", uneven(), None, 8),
        ("uneven, by cache", uneven(), Some(3), 3),
        (
            "nodes without caches",
            machine((0..8).map(|id| (id, 0, 0, id / 2))),
            Some(4),
            4,
        ),
        ("a quota", paid_for(3), None, 3),
        ("a quota, and more asked for", paid_for(3), Some(5), 5),
        (
            "a cpuset",
            Machine::synthetic(2, 4, 8, 2).restricted_to(&[3, 67, 40, 41]),
            None,
            3,
        ),
        (
            "more than cores",
            Machine::synthetic(1, 1, 2, 1),
            Some(5),
            5,
        ),
    ] {
        let runtime = runtime(&machine, asked);
        let options = asked.map_or_else(PlanOptions::default, |localities| {
            PlanOptions::default().localities(localities)
        });
        let planned: Vec<_> = plan(&machine, &options)
            .into_iter()
            .map(|plan| (plan.index, plan.cpus))
            .collect();
        let listed = runtime.operations();
        let there: Vec<_> = listed
            .localities
            .into_iter()
            .map(|locality| (locality.index, locality.cpus))
            .collect();
        assert_eq!(there, planned, "{what}");
        assert_eq!(runtime.localities(), localities, "{what}");
        assert_eq!(listed.incidents, [], "{what}");
    }
}

/// Where possible, the processors of a locality are in one node and one cache, whatever the machine.
#[test]
fn a_quota_is_divided_by_nodes_too() {
    let plans = |quota| plan(&paid_for(quota), &PlanOptions::default());
    assert_eq!(plans(1)[0].cpus.len(), 32);
    assert!(plans(2).iter().all(|plan| plan.cache.is_some()));
    // Four localities of four cores each, both threads of each.
    assert!(plans(4).iter().all(|plan| plan.cpus.len() == 8));
    // No quota is less than one processor, and none makes more localities than cores.
    assert_eq!(plans(0).len(), 1);
    assert_eq!(plans(100).len(), 16);
}

fn home(runtime: &Runtime, placement: Placement) -> usize {
    let submission = runtime.submit(quick(|_| {})).place(placement);
    submission.start().unwrap().locality()
}

fn counts(homes: impl IntoIterator<Item = usize>) -> BTreeMap<usize, usize> {
    homes.into_iter().fold(BTreeMap::new(), |mut counts, home| {
        *counts.entry(home).or_default() += 1;
        counts
    })
}

/// Machines of 1, 3, 8 and 64 localities: every placement reaches every locality, evenly where it promises so.
#[test]
fn homes_on_machines_of_any_size() {
    let _limit = limit();
    for machine in [
        Machine::synthetic(1, 1, 1, 1),
        paid_for(3),
        uneven(),
        Machine::synthetic(2, 4, 8, 1),
    ] {
        let runtime = runtime(&machine, None);
        let all = runtime.localities();
        let each = |times| {
            (0..all)
                .map(|home| (home, times))
                .collect::<BTreeMap<_, _>>()
        };

        let homes = (0..3 * all).map(|_| home(&runtime, Placement::RoundRobin));
        assert_eq!(counts(homes), each(3));
        let homes = (0..3 * all).map(|_| home(&runtime, Placement::Here));
        assert_eq!(counts(homes), each(3), "from outside there is no here");
        for index in 0..all {
            assert_eq!(home(&runtime, Placement::Locality(index)), index);
        }

        // The same key has the same home. With 200 keys per locality, none has less than a third or more than twice of
        // that.
        let homes: Vec<_> = (0..200 * all as u64)
            .map(|key| home(&runtime, Placement::Key(key)))
            .collect();
        assert_eq!(home(&runtime, Placement::Key(0)), homes[0]);
        let counted = counts(homes);
        assert_eq!(counted.len(), all);
        assert!(
            counted.values().all(|count| (66..=400).contains(count)),
            "{counted:?}"
        );

        let beyond = runtime
            .submit(quick(|_| {}))
            .place(Placement::Locality(all));
        assert_eq!(
            beyond.start().unwrap_err().reason(),
            RefusedReason::NoSuchLocality
        );
    }
}

/// The least loaded of 64: each gets one before any gets two, and a more loaded one is skipped.
#[test]
fn the_least_loaded_of_many() {
    let _limit = limit();
    let runtime = runtime(&Machine::synthetic(2, 4, 8, 1), None);
    let stays = |placement| {
        let stays = task(|_| Box::pin(std::future::pending()));
        runtime.submit(stays).place(placement).start().unwrap()
    };
    let _crowd: Vec<_> = (0..4).map(|_| stays(Placement::Locality(17))).collect();
    let foms: Vec<_> = (0..63 * 4).map(|_| stays(Placement::LeastLoaded)).collect();
    let counted = counts(foms.iter().map(|fom| fom.locality()));
    assert_eq!(counted.len(), 63);
    assert!(!counted.contains_key(&17));
    assert!(counted.values().all(|count| *count == 4), "{counted:?}");
}

/// A fom's children live with it in each of 64 localities, and a key has the same home wherever it is asked for.
#[test]
fn homes_from_inside_are_those_from_outside() {
    let _limit = limit();
    let runtime = runtime(&Machine::synthetic(2, 4, 8, 1), None);
    let key_home = home(&runtime, Placement::Key(42));
    for index in 0..64 {
        let looks = quick(move |cx: &mut Cx<'_>| {
            let submit = |placement| {
                let submission = cx.submit(quick(|_| {}));
                match placement {
                    Some(placement) => submission.place(placement),
                    None => submission,
                }
                .start()
                .unwrap()
                .locality()
            };
            assert_eq!(cx.locality(), index);
            assert_eq!(submit(None), index);
            assert_eq!(submit(Some(Placement::Here)), index);
            assert_eq!(submit(Some(Placement::Key(42))), key_home);
        });
        let looks = runtime.submit(looks).place(Placement::Locality(index));
        looks.start().unwrap().wait().unwrap();
    }
}
