//! The calls by key that this process makes.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use fom_protocol::{
    schedule::spawn,
    sync::{Mutex, block_on},
};
use fom_runtime::Key;

use crate::{
    answers::MOST,
    call::{Blob, Call, Name, Reply, Request, What},
    error::ClusterError,
    node::Node,
    numbers::{Numbers, Ranges},
    route::{ask, failed},
    slot::{Place, Slot},
};

/// The calls of this process.
pub(crate) struct Caller {
    node: Arc<Node>,
    /// No other process has it.
    name: String,
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    slots: HashMap<Slot, Numbers>,
    /// The slots in which a call runs that no caller waits for any more.
    dropped: BTreeSet<Slot>,
    /// Whether a thread tells their owners.
    tells: bool,
}

impl Caller {
    pub(crate) fn new(node: &Arc<Node>, name: String) -> Arc<Self> {
        Arc::new(Self {
            node: Arc::clone(node),
            name,
            calls: Mutex::default(),
        })
    }

    /// Calls what answers under this name, at the owner of the slot of the key.
    ///
    /// # Errors
    ///
    /// Fails if there is no answer.
    pub(crate) async fn call(
        self: &Arc<Self>,
        name: &str,
        key: Key,
        body: Vec<u8>,
    ) -> Result<Vec<u8>, ClusterError> {
        if body.len() > MOST {
            let why = format!("the call has {} bytes; the most are {MOST}", body.len());
            return Err(ClusterError::Failed(why));
        }
        let place = Place::key(key.clone());
        let slot = place.slot(self.node.settings.slots);
        let (mut waiting, done) = self.begin(slot);
        let what = What::Call(Call {
            caller: self.name.clone(),
            number: waiting.number,
            done,
            key: Some(key),
            body: Blob(body),
        });
        let asked = ask(&self.node, request(slot, name, what)).await;
        waiting.is_over = true;
        match asked? {
            Reply::Answer(answer) => Ok(answer.0),
            other => Err(failed(other, &place)),
        }
    }

    /// Begins a call. Returns which calls to the slot are done.
    fn begin(self: &Arc<Self>, slot: Slot) -> (Waiting, Ranges) {
        let (number, done) = self.calls.lock().slots.entry(slot).or_default().begin();
        let caller = Arc::clone(self);
        let waiting = Waiting {
            caller,
            slot,
            number,
            is_over: false,
        };
        (waiting, done)
    }

    /// Notes that a call is never repeated. If it may run, its owner is told.
    fn done(self: &Arc<Self>, slot: Slot, number: u64, is_over: bool) {
        {
            let mut calls = self.calls.lock();
            calls.slots.entry(slot).or_default().done(number);
            if is_over {
                return;
            }
            calls.dropped.insert(slot);
            if std::mem::replace(&mut calls.tells, true) {
                return;
            }
        }
        let caller = Arc::clone(self);
        if spawn("fom-cancel", move || caller.tell()).is_err() {
            // The next call to the slot tells it.
            self.calls.lock().tells = false;
        }
    }

    /// Tells the owners which calls are done, until they know it.
    fn tell(&self) {
        loop {
            let (slot, done) = {
                let mut calls = self.calls.lock();
                let Some(slot) = calls.dropped.pop_first() else {
                    calls.tells = false;
                    return;
                };
                (slot, calls.slots.entry(slot).or_default().all_done())
            };
            let what = What::Done {
                caller: self.name.clone(),
                done,
            };
            // Without an owner, the call does not run.
            drop(block_on(ask(&self.node, request(slot, "", what))));
        }
    }
}

fn request(slot: Slot, name: &str, what: What) -> Request {
    let of = Name {
        machine: String::new(),
        operation: name.to_owned(),
    };
    Request {
        slot: slot.0,
        of,
        what,
    }
}

/// A call that may be repeated until this is dropped.
struct Waiting {
    caller: Arc<Caller>,
    slot: Slot,
    number: u64,
    /// Whether the owner has ended it, or no owner has it.
    is_over: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.caller.done(self.slot, self.number, self.is_over);
    }
}
