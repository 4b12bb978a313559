//! The client: it submits transfers and visits, asks again until each is carried out, and closes the accounts.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use crate::nodes::{Nodes, lock};

pub(crate) const ACCOUNTS: u32 = 6;
const WORKERS: usize = 12;
const DESKS: u32 = 3;
const COUNTERS: u32 = 4;
/// How long an account may need for its last bookings, after the last fault.
const CLOSING: Duration = Duration::from_secs(60);

/// What the client has done and heard.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) transfers: AtomicU32,
    /// How many calls of objects were answered.
    pub(crate) counts: AtomicU32,
    /// How many visits were accepted at each desk.
    pub(crate) visits: Mutex<BTreeMap<u32, u32>>,
    pub(crate) wrong: Mutex<Vec<String>>,
}

impl Done {
    pub(crate) fn wrong(&self, what: String) {
        eprintln!("WRONG: {what}");
        lock(&self.wrong).push(what);
    }
}

/// Returns the two accounts of a transfer.
pub(crate) fn accounts_of(transfer: u32) -> (u32, u32) {
    let from = transfer % ACCOUNTS;
    (
        from,
        (from + 1 + transfer / ACCOUNTS % (ACCOUNTS - 1)) % ACCOUNTS,
    )
}

/// Submits until `stop`.
pub(crate) fn submit(nodes: &Nodes, done: &Done, stop: &AtomicBool) {
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            scope.spawn(move || {
                while !stop.load(Ordering::Acquire) {
                    let number = done.transfers.fetch_add(1, Ordering::Relaxed);
                    let (from, to) = accounts_of(number);
                    match nodes.ask(worker, &format!("transfer {number} {from} {to}")) {
                        Ok(told) if told == number.to_string() => {}
                        Ok(told) => done.wrong(format!("transfer {number} is the one of {told}")),
                        Err(why) => done.wrong(why),
                    }
                    thread::sleep(Duration::from_millis(700));
                }
            });
        }
        for counter in 0..COUNTERS {
            scope.spawn(move || {
                for call in 0u64.. {
                    if stop.load(Ordering::Acquire) {
                        return;
                    }
                    // Each node is asked in turn: one that takes itself for the owner would answer.
                    let node = counter as usize + call as usize % 3;
                    match nodes.ask(node, &format!("count {counter} {call}")) {
                        Ok(_) => drop(done.counts.fetch_add(1, Ordering::Relaxed)),
                        Err(why) => done.wrong(why),
                    }
                    thread::sleep(Duration::from_millis(300));
                }
            });
        }
        for desk in 0..DESKS {
            scope.spawn(move || {
                let mut number = 0;
                while !stop.load(Ordering::Acquire) {
                    if let Err(why) = nodes.ask(desk as usize, &format!("visit {number} {desk}")) {
                        done.wrong(why);
                        return;
                    }
                    number += 1;
                    lock(&done.visits).insert(desk, number);
                    thread::sleep(Duration::from_millis(2500));
                }
            });
        }
    });
}

/// Closes the accounts, and waits until all visits have left. Returns the bookings of each account.
pub(crate) fn close(nodes: &Nodes, done: &Done) -> BTreeMap<u32, Vec<(u32, i64)>> {
    let count = done.transfers.load(Ordering::Relaxed);
    let close = |account| {
        let of_it = |transfer: &u32| {
            let (from, to) = accounts_of(*transfer);
            from == account || to == account
        };
        let expects = (0..count).filter(of_it).count();
        let words = format!("close {account} {expects}");
        let told = nodes.ask_for(CLOSING, account as usize, &words);
        let told = told.map_err(|why| done.wrong(why)).ok()?;
        let one = |booking: &str| {
            let (transfer, cents) = booking.split_once(':')?;
            Some((transfer.parse().ok()?, cents.parse().ok()?))
        };
        Some((account, told.split(',').filter_map(one).collect()))
    };
    let close = &close;
    let booked = thread::scope(|scope| {
        let closing = (0..ACCOUNTS).map(|account| scope.spawn(move || close(account)));
        let closing: Vec<_> = closing.collect();
        let closed = closing
            .into_iter()
            .filter_map(|closing| closing.join().ok().flatten());
        closed.collect()
    });
    let visits = lock(&done.visits).clone();
    for (desk, count) in visits {
        for number in 0..count {
            match nodes.ask(number as usize, &format!("left {number} {desk}")) {
                Ok(told) if told == number.to_string() => {}
                Ok(told) => done.wrong(format!("visit {number} is the one of {told}")),
                Err(why) => done.wrong(why),
            }
        }
    }
    booked
}
