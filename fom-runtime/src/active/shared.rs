//! What an active object and its proxies share.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use crate::{
    FomId, FomRef,
    active::{
        Active, CallError,
        activation::Settings,
        list::{List, Queued, Taken, Turn},
        request::Request,
        servant::Object,
        station::{Place, Station},
    },
    fom::{Explain, panic_message},
    locality::Home,
    runtime::World,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

pub(crate) struct Shared<A: Active> {
    world: Arc<World>,
    pub(super) settings: Settings,
    list: Mutex<List<A>>,
    /// The request that runs was told to stop.
    cancelled: AtomicBool,
    /// Set before there is a proxy.
    fom: OnceLock<FomRef<Object<A>>>,
}

/// What became of a request.
pub(super) enum Pushed {
    At(Place),
    /// It was answered at once.
    Refused,
}

impl<A: Active> Shared<A> {
    pub(super) fn new(world: Arc<World>, settings: Settings) -> Self {
        Self {
            world,
            settings,
            list: Mutex::default(),
            cancelled: AtomicBool::new(false),
            fom: OnceLock::new(),
        }
    }

    pub(super) fn set_fom(self: &Arc<Self>, fom: FomRef<Object<A>>) {
        // Weak: this keeps the memory of the fom.
        let explains: Weak<Self> = Arc::downgrade(self);
        fom.explained_by(explains);
        // Called once.
        let _ = self.fom.set(fom);
    }

    /// The fom that the object is.
    pub(super) fn fom(&self) -> &FomRef<Object<A>> {
        match self.fom.get() {
            Some(fom) => fom,
            None => unreachable!("a proxy is made after its fom"),
        }
    }

    pub(super) fn push(&self, priority: u8, request: Box<dyn Request<A>>) -> Pushed {
        let mut list = self.list.lock();
        if list.is_closed() {
            drop(list);
            request.refuse(CallError::Ended);
            return Pushed::Refused;
        }
        if list.len() >= self.settings.capacity {
            drop(list);
            request.turn_away();
            return Pushed::Refused;
        }
        let (place, wake) = list.push(priority, request);
        drop(list);
        if wake {
            self.fom().wake();
        }
        Pushed::At(place)
    }

    /// The last proxy has gone.
    pub(super) fn orphan(&self) {
        if self.list.lock().orphan() {
            self.fom().wake();
        }
    }

    /// What the object does next.
    pub(super) fn turn(&self) -> Turn<A> {
        let mut list = self.list.lock();
        let turn = list.turn();
        if let Turn::Next(_) = turn {
            // Under the lock, so that a cancel finds either the request in the list, or this done.
            self.cancelled.store(false, Ordering::Relaxed);
        }
        turn
    }

    /// The guard was false.
    pub(super) fn put_back(&self, mut queued: Queued<A>) {
        if queued.blocked.is_none() {
            queued.blocked = Some(self.world.clock.nanos());
        }
        let mut list = self.list.lock();
        if !self.cancelled.load(Ordering::Relaxed) {
            return list.put_back(queued);
        }
        drop(list);
        self.pass(queued, CallError::Cancelled);
    }

    /// It is answered without having run.
    pub(super) fn pass(&self, queued: Queued<A>, error: CallError) {
        self.list.lock().pass();
        self.refuse(queued.request, error);
    }

    /// The request that ran has ended.
    pub(super) fn changed(&self) {
        self.list.lock().changed();
    }

    /// The object has ended: all that wait are answered.
    pub(super) fn close(&self) {
        let left = self.list.lock().close();
        for queued in left {
            self.refuse(queued.request, CallError::Ended);
        }
    }

    /// Answers without calling. What panics while the arguments are dropped harms nobody.
    pub(super) fn refuse(&self, request: Box<dyn Request<A>>, error: CallError) {
        self.fenced(request.name(), "while a request was dropped", || {
            request.refuse(error);
        });
    }

    pub(super) fn fenced(&self, method: &str, when: &str, f: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(f)) {
            let message = panic_message(panic);
            self.world.incident(format!(
                "`{}::{method}` panicked {when}: {message}",
                A::NAME
            ));
        }
    }
}

impl<A: Active> Station for Shared<A> {
    fn name(&self) -> &'static str {
        A::NAME
    }

    fn world(&self) -> &Arc<World> {
        &self.world
    }

    fn id(&self) -> FomId {
        self.fom().id()
    }

    fn home(&self) -> Home {
        self.fom().home()
    }

    fn queued(&self) -> usize {
        self.list.lock().len()
    }

    fn is_busy(&self) -> bool {
        self.list.lock().is_busy()
    }

    fn has_ended(&self) -> bool {
        self.list.lock().is_closed()
    }

    fn cancel(&self, place: Place) {
        let mut list = self.list.lock();
        match list.take_back(place) {
            Taken::Back(request) => {
                drop(list);
                self.refuse(request, CallError::Cancelled);
            }
            Taken::Runs => {
                self.cancelled.store(true, Ordering::Relaxed);
                drop(list);
                // So that it sees that, should it be an async method that waits.
                self.fom().wake();
            }
            Taken::Gone => {}
        }
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

impl<A: Active> Explain for Shared<A> {
    fn waits_for(&self) -> String {
        let list = self.list.lock();
        if list.is_busy() {
            return "an answer of another active object".to_owned();
        }
        match list.first_blocked() {
            None => "a request".to_owned(),
            Some(first) => {
                let since = first.blocked.unwrap_or_default();
                let time = self.world.clock.nanos().saturating_sub(since);
                format!(
                    "the guard of `{}`, false for {:?}",
                    first.request.name(),
                    Duration::from_nanos(time)
                )
            }
        }
    }

    fn queued(&self) -> usize {
        Station::queued(self)
    }
}
