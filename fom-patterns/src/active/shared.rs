//! The state that an active object and its proxies share.

use std::{
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use fom_protocol::{
    caught, nanos,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};
use fom_runtime::{
    FomId, FomRef, Runtime,
    extension::{Attached, Daemon, Listed, Listing, Wait, WaitKind},
    machine::FomState,
    observe::{IncidentKind, PartInfo},
    time::Instant,
};

use crate::active::{
    Active, ActiveCallError,
    activation::Settings,
    forward::UnderWay,
    list::{List, Pushed, Queued, Taken, Turn},
    object_handle::{ObjectHandle, Place},
    request::Request,
    servant::{ANSWER, Object},
    water_marks::Pressure,
};

pub(crate) struct Shared<A: Active> {
    /// Does not keep the runtime alive.
    runtime: Runtime,
    pub(super) settings: Settings,
    list: Mutex<List<A>>,
    /// Whether the running request was told to stop.
    cancelled: AtomicBool,
    /// The calls that are on their way to an object elsewhere.
    pub(super) under_way: UnderWay,
    /// Set before a caller gets a proxy.
    fom: OnceLock<FomRef<Object<A>>>,
    /// Set when the object has its fom.
    listing: OnceLock<Listing>,
}

impl<A: Active> Shared<A> {
    pub(super) fn new(runtime: Runtime, settings: Settings) -> Self {
        Self {
            runtime,
            list: Mutex::new(List::new(settings.limits)),
            settings,
            cancelled: AtomicBool::new(false),
            under_way: UnderWay::default(),
            fom: OnceLock::new(),
            listing: OnceLock::new(),
        }
    }

    pub(super) fn set_fom(self: &Arc<Self>, fom: FomRef<Object<A>>) {
        // Weak, because `self` keeps the memory of the fom.
        let details: Weak<Self> = Arc::downgrade(self);
        fom.attach(details);
        // This function is called once.
        let _ = self.fom.set(fom);
        let part: Weak<Self> = Arc::downgrade(self);
        let _ = self.listing.set(self.runtime.extension().list(part));
    }

    /// Returns the object's fom.
    pub(super) fn fom(&self) -> &FomRef<Object<A>> {
        match self.fom.get() {
            Some(fom) => fom,
            None => unreachable!("a proxy is made after its fom"),
        }
    }

    /// Queues a request. Returns its place, and whether it waits for room. Returns `None` if the request was answered
    /// instead.
    pub(super) fn push(&self, priority: u8, request: Box<dyn Request<A>>) -> Option<(Place, bool)> {
        // While the runtime drains, it takes calls only from its own foms.
        if !self.runtime.extension().is_accepting() {
            self.refuse(request, ActiveCallError::Ended);
            return None;
        }
        let mut list = self.list.lock();
        let pushed = list.push(priority, request);
        self.unlock(list);
        match pushed {
            Pushed::At { place, wake, waits } => {
                self.wake_if(wake);
                Some((place, waits))
            }
            Pushed::Full(request) => {
                self.fenced(request.name(), "while a request was dropped", || {
                    request.turn_away();
                });
                None
            }
            Pushed::Closed(request) => {
                self.refuse(request, ActiveCallError::Ended);
                None
            }
        }
    }

    fn wake_if(&self, wake: bool) {
        if wake {
            self.fom().wake();
        }
    }

    /// Unlocks the list and reports the marks that were crossed, one at a time and never under the lock.
    fn unlock<'a>(&'a self, mut list: MutexGuard<'a, List<A>>) {
        let Some(tell) = &self.settings.tell else {
            return;
        };
        while !list.telling
            && let Some(pressure) = list.news.pop_front()
        {
            list.telling = true;
            drop(list);
            self.fenced("marks", "while it was told of them", || tell.0(pressure));
            list = self.list.lock();
            list.telling = false;
        }
    }

    /// Notes that no further request comes, and wakes the object.
    pub(super) fn orphan(&self) {
        let wake = self.list.lock().orphan();
        self.wake_if(wake);
    }

    /// Returns the object's next action.
    pub(super) fn turn(&self) -> Turn<A> {
        let mut list = self.list.lock();
        let turn = list.turn();
        if let Turn::Next(_) = turn {
            // Under the lock, so that a cancel either finds the request in the list or sets the flag after this store.
            self.cancelled.store(false, Ordering::Relaxed);
        }
        self.unlock(list);
        turn
    }

    /// Starts the current request: its guard was true.
    pub(super) fn begin(&self) {
        let mut list = self.list.lock();
        list.begin();
        self.unlock(list);
    }

    /// Puts a request back, because its guard was false, or answers the request if it was cancelled meanwhile.
    pub(super) fn put_back(&self, mut queued: Queued<A>) {
        if queued.blocked.is_none() {
            queued.blocked = Some(self.runtime.now());
        }
        let mut list = self.list.lock();
        if !self.cancelled.load(Ordering::Relaxed) {
            return list.put_back(queued);
        }
        drop(list);
        self.pass(queued, ActiveCallError::Cancelled);
    }

    /// Takes the current request out of the list: it goes elsewhere.
    pub(super) fn carry(&self) {
        let mut list = self.list.lock();
        list.pass();
        self.unlock(list);
    }

    /// Answers the current request without running it.
    pub(super) fn pass(&self, queued: Queued<A>, error: ActiveCallError) {
        self.carry();
        self.refuse(queued.request, error);
    }

    /// Ends the current request.
    pub(super) fn changed(&self) {
        self.list.lock().changed();
    }

    /// Closes the list of an ended object, and answers all waiting requests.
    pub(super) fn close(&self) {
        let mut list = self.list.lock();
        let left = list.close();
        self.unlock(list);
        for queued in left {
            self.refuse(queued.request, ActiveCallError::Ended);
        }
    }

    /// Answers without calling the method. A panic while the arguments are dropped affects nothing else.
    pub(super) fn refuse(&self, request: Box<dyn Request<A>>, error: ActiveCallError) {
        self.fenced(request.name(), "while a request was dropped", || {
            request.refuse(error);
        });
    }

    pub(super) fn fenced(&self, method: &str, when: &str, f: impl FnOnce()) {
        if let Err(message) = caught(f) {
            self.runtime.report(
                IncidentKind::Panicked,
                format!("active object `{}`", A::NAME),
                format!("`{}::{method}` panicked {when}: {message}", A::NAME),
            );
        }
    }
}

impl<A: Active> ObjectHandle for Shared<A> {
    fn name(&self) -> &'static str {
        A::NAME
    }

    fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    fn id(&self) -> FomId {
        self.fom().id()
    }

    fn locality(&self) -> usize {
        self.fom().locality()
    }

    fn queued(&self) -> usize {
        self.list.lock().len()
    }

    fn load(&self) -> usize {
        self.list.lock().load()
    }

    fn is_busy(&self) -> bool {
        self.list.lock().is_busy()
    }

    fn pressure(&self) -> Pressure {
        self.list.lock().pressure()
    }

    fn has_ended(&self) -> bool {
        self.list.lock().is_closed()
    }

    fn cancel(&self, place: Place) {
        let mut list = self.list.lock();
        let (taken, wake) = list.take_back(place);
        if matches!(taken, Taken::Runs) {
            self.cancelled.store(true, Ordering::Relaxed);
        }
        self.unlock(list);
        match taken {
            Taken::Back(request) => self.refuse(request, ActiveCallError::Cancelled),
            // An async method that waits must see the flag.
            Taken::Runs => self.fom().wake(),
            Taken::Gone => self.under_way.cancel(place),
        }
        self.wake_if(wake);
    }

    fn withdraw(&self, place: Place) {
        let request = self.list.lock().withdraw(place);
        if let Some(request) = request {
            self.refuse(request, ActiveCallError::Cancelled);
        }
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

impl<A: Active> Attached for Shared<A> {
    fn waits(&self, kind: &WaitKind) -> Vec<Wait> {
        if *kind != ANSWER {
            return Vec::new();
        }
        if self.under_way.len() > 0 {
            return vec![Wait::of("answers of an object elsewhere")];
        }
        let list = self.list.lock();
        if list.is_busy() {
            return vec![Wait::of("an answer of another active object")];
        }
        vec![match list.first_blocked() {
            None => Wait::of("a request"),
            Some(first) => {
                let since = first.blocked.unwrap_or(Instant::START);
                let nanos = nanos(self.runtime.now() - since);
                Wait {
                    subject: Some(first.request.name().to_owned()),
                    waited: Some(Duration::from_millis(nanos / 1_000_000)),
                    ..Wait::of("the guard of")
                }
            }
        }]
    }

    fn queued(&self) -> Option<usize> {
        Some(ObjectHandle::queued(self))
    }
}

impl<A: Active> Listed for Shared<A> {
    fn parts(self: Arc<Self>, _: &Runtime) -> Vec<PartInfo> {
        if Daemon::has_ended(&*self) {
            return Vec::new();
        }
        let name = match (&self.settings.elsewhere, self.fom().key()) {
            (Some(elsewhere), _) => format!("{elsewhere}, elsewhere"),
            (None, Some(key)) => format!("{} {key}", A::NAME),
            (None, None) => A::NAME.to_owned(),
        };
        let list = self.list.lock();
        let mut info = PartInfo::new("active object", name)
            .queued(list.len())
            .with("object", A::NAME)
            .with("requests", list.numbered())
            .with("running", list.load() - list.len() + self.under_way.len())
            .with("full", list.pressure() == Pressure::High)
            .with("capacity", self.settings.limits.capacity);
        info.fom = Some(self.fom().id());
        vec![info]
    }
}

impl<A: Active> Daemon for Shared<A> {
    fn rests(&self) -> Option<u64> {
        self.list.lock().rests()
    }

    fn has_ended(&self) -> bool {
        // The fom counts as ended before its operation is dropped, which closes the list.
        ObjectHandle::has_ended(self) || self.fom().state() == FomState::Finished
    }

    fn end(&self) {
        self.orphan();
    }
}
