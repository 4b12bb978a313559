//! Describes what a fom that waits for a lock waits for.

use crate::{
    fom::Header,
    lock::{LongLock, owner::Owner},
};

/// Returns the text for the listing: `` the lock `account 7`, held by Transfer 12 in Move ``.
pub(crate) fn waiting_for(fom: &Header) -> String {
    let waits = fom.lock_places();
    let said: Vec<_> = waits
        .iter()
        .filter_map(|waiting| said(&waiting.lock, waiting.ticket))
        .collect();
    if said.is_empty() {
        // The lock was granted just now.
        return "a lock".to_owned();
    }
    said.join(" or ")
}

fn said(lock: &LongLock, ticket: u64) -> Option<String> {
    // Formatted without the mutex.
    let (how, ahead, others): (&str, Owner, bool) = {
        let state = lock.state();
        let mode = state.waiter(ticket)?.mode;
        let mut holders = state.holders().filter(|hold| mode.conflicts(hold.mode));
        if let Some(first) = holders.next() {
            ("held by", first.owner.clone(), holders.next().is_some())
        } else {
            let mut before = state
                .before(ticket)
                .filter(|waiter| mode.conflicts(waiter.mode));
            let first = before.next()?;
            ("behind", first.owner.clone(), before.next().is_some())
        }
    };
    let others = if others { " and others" } else { "" };
    Some(format!("the lock `{lock}`, {how} {ahead}{others}"))
}
