//! Commits: a transition is on disk before any caller hears of it, also while the journal fails. What a step puts into
//! its outbox is committed with it, and comes once and in order.

#[path = "../../../fom-runtime/tests/kit/mod.rs"]
mod kit;

mod acknowledged;
mod committed;
mod dead_letters;
mod failing;
mod journal;
mod lazy;
mod leased;
mod listed;
mod not_kept;
mod outbox;
mod outbox_order;
mod outbox_turns;
mod panics;
mod pending;
mod stalled_alone;
mod stalled_events;
mod statements;
