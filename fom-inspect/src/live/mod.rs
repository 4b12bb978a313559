//! The stream: what changes, as merge patches of one document.

mod document;
mod patch;

use std::{sync::Arc, time::Duration};

use hyper::body::Bytes;
use serde_json::Value;
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval},
};

use crate::{
    catalog::Machine,
    resources::now,
    state::{State, clock},
};

/// The time between two looks: at most four messages in a second.
const STEP: Duration = Duration::from_millis(250);
/// The time without a change after which a comment keeps the connection open.
const IDLE: Duration = Duration::from_secs(15);

/// Sends changes to one reader until it is gone. The messages that a slow reader misses come as one.
pub(crate) async fn run(state: Arc<State>, machine: Option<Arc<Machine>>, to: mpsc::Sender<Bytes>) {
    let mut before = None;
    let mut number = 0_u64;
    let mut ticks = interval(STEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // A message is made when the reader has taken the one before.
    while let Ok(permit) = to.reserve().await {
        let began = Instant::now();
        let message = loop {
            ticks.tick().await;
            if to.is_closed() {
                return;
            }
            let document = document::document(&state, machine.as_deref());
            let change = match &before {
                None => Some(document.clone()),
                Some(before) => patch::patch(before, &document),
            };
            if let Some(change) = change {
                number += 1;
                before = Some(document);
                break event(&state, number, change);
            }
            if began.elapsed() >= IDLE {
                break Bytes::from_static(b": idle\n\n");
            }
        };
        permit.send(message);
    }
}

fn event(state: &State, number: u64, mut change: Value) -> Bytes {
    change["seq"] = number.into();
    change["at"] = now().into();
    change["now"] = clock(state.runtime.now()).into();
    // JSON on one line has no line feed in it.
    Bytes::from(format!("event: live\ndata: {change}\n\n"))
}
