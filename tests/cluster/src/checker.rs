//! What must be true of the log and of the answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use fom_cluster::{Place, Slot};

use crate::{
    load::{Done, accounts_of},
    node::SLOTS,
};

/// The most bookings in a message.
const MOST: usize = 5;

/// What the log has.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) entries: usize,
    /// Entries of a former owner after one of a later owner: the first one in a slot after a pause of its process.
    pub(crate) late: usize,
    pub(crate) greatest_term: u64,
}

/// Checks the log: one step key for each step, one term after the other, visits one after the other, and each call once on an object.
pub(crate) fn check_log(log: &str, done: &Done) -> Seen {
    let mut seen = Seen::default();
    let mut keys: BTreeMap<(&str, u32), BTreeSet<&str>> = BTreeMap::new();
    let mut calls = BTreeSet::new();
    let mut terms: BTreeMap<&str, u64> = BTreeMap::new();
    // The slots in which each node has an entry since it was paused. The first one in each may have begun before the pause.
    let mut since: BTreeMap<&str, BTreeSet<Slot>> = BTreeMap::new();
    let mut desks: BTreeMap<&str, Vec<(bool, u32)>> = BTreeMap::new();
    for line in log.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let (node, of, step, term, key) = match words[..] {
            ["#", node] => {
                since.insert(node, BTreeSet::new());
                continue;
            }
            [node, of, step, term, key] => (node, of, step, term, key),
            _ => {
                done.wrong(format!("the log has `{line}`"));
                continue;
            }
        };
        let (Ok(step), Ok(term)) = (step.parse(), term.parse::<u64>()) else {
            done.wrong(format!("the log has `{line}`"));
            continue;
        };
        seen.entries += 1;
        seen.greatest_term = seen.greatest_term.max(term);
        match of.starts_with("counter-") {
            // The key is the object and the attempt of the call.
            true if !calls.insert(key) => done.wrong(format!("`{line}` has run before")),
            true => {}
            false => drop(keys.entry((of, step)).or_default().insert(key)),
        }
        let (name, is_late) = match of.strip_suffix("-late") {
            Some(desk) => (desk, true),
            None => (of, false),
        };
        let slots = since.get_mut(node);
        let is_first = slots.is_some_and(|slots| slots.insert(slot_of(name)));
        let newest = terms.entry(name).or_insert(term);
        if *newest > term {
            match is_first {
                true => seen.late += 1,
                false => done.wrong(format!("`{line}` came after one of term {newest}")),
            }
            continue;
        }
        *newest = term;
        if name.starts_with("desk-") {
            desks.entry(name).or_default().push((is_late, step));
        }
    }
    for ((of, step), keys) in &keys {
        if keys.len() > 1 {
            done.wrong(format!("step {step} of {of} has several keys: {keys:?}"));
        }
    }
    for (desk, entries) in desks {
        check_desk(desk, &entries, done);
    }
    seen
}

/// Returns the slot of what the log names, such as `transfer-3`: its key is `transfer 3`, and that of a counter is a number.
fn slot_of(name: &str) -> Slot {
    let counter = name.strip_prefix("counter-");
    let place = match counter.and_then(|number| number.parse::<u64>().ok()) {
        Some(number) => Place::key(number),
        None => Place::key(name.replace('-', " ")),
    };
    place.slot(SLOTS)
}

/// The visits at a desk come in their order, and each one leaves before the next one enters.
fn check_desk(desk: &str, entries: &[(bool, u32)], done: &Done) {
    let (mut next, mut inside) = (0, None);
    for (leaves, visit) in entries {
        match (leaves, inside) {
            (false, None) if *visit == next => inside = Some(*visit),
            // Again: the entry was not committed.
            (false | true, Some(one)) if *visit == one => {
                if *leaves {
                    next = one + 1;
                    inside = None;
                }
            }
            (true, None) if *visit + 1 == next => {}
            _ => done.wrong(format!(
                "at {desk}, visit {visit} (leaves: {leaves}) came while {inside:?} was inside, and {next} was next"
            )),
        }
    }
}

/// Checks the accounts, or `what` of them: each has each of its bookings once.
pub(crate) fn check_accounts(
    what: &str,
    booked: &BTreeMap<u32, Vec<(u32, i64)>>,
    transfers: u32,
    done: &Done,
) {
    let mut expected: BTreeMap<u32, BTreeSet<(u32, i64)>> = BTreeMap::new();
    for transfer in 0..transfers {
        let (from, to) = accounts_of(transfer);
        let cents = i64::from(transfer + 1);
        expected.entry(from).or_default().insert((transfer, -cents));
        expected.entry(to).or_default().insert((transfer, cents));
    }
    for (account, expected) in &expected {
        let found = booked.get(account).map(Vec::as_slice).unwrap_or_default();
        let once: BTreeSet<_> = found.iter().copied().collect();
        if once.len() != found.len() {
            let twice: Vec<_> = once
                .iter()
                .filter(|booking| found.iter().filter(|one| one == booking).count() > 1)
                .collect();
            done.wrong(format!(
                "{what}account {account} has booked twice: {}",
                some(&twice)
            ));
        }
        if once != *expected {
            let missing: Vec<_> = expected.difference(&once).collect();
            let more: Vec<_> = once.difference(expected).collect();
            let (missing, more) = (some(&missing), some(&more));
            done.wrong(format!(
                "{what}account {account}: missing {missing}, too many {more}"
            ));
        }
    }
    let sum: i64 = booked.values().flatten().map(|(_, cents)| cents).sum();
    if sum != 0 {
        done.wrong(format!("the sum of {what}the accounts is {sum}"));
    }
}

/// Returns the first of these as text, and how many more there are.
fn some<T: fmt::Debug>(all: &[T]) -> String {
    let first = &all[..all.len().min(MOST)];
    match all.len() - first.len() {
        0 => format!("{first:?}"),
        more => format!("{first:?} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong_in(log: &str) -> Vec<String> {
        let done = Done::default();
        check_log(log, &done);
        done.wrong.into_inner().unwrap()
    }

    #[test]
    fn a_log_without_faults_is_right() {
        let log = "a desk-0 0 1 k0\nb desk-0 0 2 k0\nb desk-0-late 0 2 l0\nb desk-0 1 2 k1\nb desk-0-late 1 2 l1\n\
                   a transfer-3 0 1 t0\nb transfer-3 0 2 t0\nb transfer-3 1 2 t1\n\
                   a counter-1 0 1 o1-c1\nb counter-1 0 2 o2-c1\nb counter-1 1 2 o2-c2\n";
        assert_eq!(wrong_in(log), [""; 0]);
    }

    #[test]
    fn each_broken_promise_in_the_log_is_found() {
        let broken = [
            ("a transfer-3 0 1 t0\na transfer-3 0 1 t1\n", "several keys"),
            (
                "b transfer-3 0 2 t0\na transfer-3 1 1 t1\n",
                "came after one of term 2",
            ),
            ("a desk-0 1 1 k1\n", "0 was next"),
            (
                "a desk-0 0 1 k0\na desk-0 1 1 k1\n",
                "while Some(0) was inside",
            ),
            (
                "a desk-0 0 1 k0\na desk-0-late 0 1 l0\na desk-0 0 1 k0\n",
                "1 was next",
            ),
            ("half a line\n", "the log has"),
            (
                "a counter-1 0 1 o1-c1\na counter-1 0 1 o1-c1\n",
                "has run before",
            ),
            (
                "b counter-1 0 2 o2-c1\na counter-1 1 1 o1-c2\n",
                "came after one of term 2",
            ),
        ];
        for (log, expected) in broken {
            let wrong = wrong_in(log).concat();
            assert!(wrong.contains(expected), "{log}: {wrong}");
        }
    }

    /// What began before a pause can come late, as the first in its slot.
    #[test]
    fn a_pause_excuses_the_first_entry_in_each_slot() {
        let other =
            (4..).find(|number| slot_of(&format!("transfer-{number}")) != slot_of("transfer-3"));
        let other = format!("transfer-{}", other.unwrap());
        let late = "a transfer-3 1 1 t1\n";
        let log = format!("b transfer-3 0 2 t0\nb {other} 0 2 o0\n# a\n{late}a {other} 1 1 o1\n");
        assert_eq!(wrong_in(&log), [""; 0]);
        assert_eq!(wrong_in(&format!("{log}{late}")).len(), 1);
        assert_eq!(
            wrong_in(&format!("{log}# a\n{late}")),
            [""; 0],
            "another pause"
        );
        let second = log.replace("# a\n", "# a\na transfer-3 0 2 t0\n");
        assert_eq!(wrong_in(&second).len(), 1, "it is the second in its slot");
        // A pause of another node excuses nothing.
        assert_eq!(wrong_in(&log.replace("# a", "# c")).len(), 2);
    }

    #[test]
    fn each_wrong_account_is_found() {
        let transfers = 2;
        let mut right: BTreeMap<u32, Vec<(u32, i64)>> = BTreeMap::new();
        for transfer in 0..transfers {
            let (from, to) = accounts_of(transfer);
            let cents = i64::from(transfer + 1);
            right.entry(from).or_default().push((transfer, -cents));
            right.entry(to).or_default().push((transfer, cents));
        }
        let wrong_in = |booked: &BTreeMap<u32, Vec<(u32, i64)>>| {
            let done = Done::default();
            check_accounts("", booked, transfers, &done);
            done.wrong.into_inner().unwrap().concat()
        };
        assert_eq!(wrong_in(&right), "");
        let (mut twice, mut lost) = (right.clone(), right.clone());
        twice.entry(0).or_default().push((0, -1));
        assert!(wrong_in(&twice).contains("booked twice"));
        lost.entry(0).or_default().clear();
        assert!(wrong_in(&lost).contains("missing [(0, -1)]"));
        assert!(wrong_in(&lost).contains("the sum of the accounts is 1"));
    }
}
