//! Events of services that come and go, and their watchers.

use std::{
    collections::VecDeque,
    fmt,
    future::poll_fn,
    sync::Arc,
    task::{Poll, Waker},
};

use crate::service::{
    ServiceState, Services, Signature,
    entry::{Entry, Lifecycle},
    registry::Registry,
};
use fom_protocol::sync::Mutex;
use fom_runtime::{Runtime, context::Local, error::CallError};

/// An event of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceEvent {
    /// The name of the service.
    pub service: String,
    /// The owner that registered the service.
    pub owner: String,
    /// The types of its function.
    pub signature: Signature,
    /// What happened.
    pub happened: Happened,
}

/// A change of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Happened {
    /// The service was registered.
    Registered,
    /// The service takes calls. A service without a start is started at its registration, unless all services
    /// are stopped.
    Started,
    /// The service was stopped. It may be started again, unless the runtime has ended.
    Stopped,
    /// The service was unregistered. Its running calls may continue.
    Unregistered,
}

type Callback = Box<dyn FnMut(&mut Local<'_>, ServiceEvent) + Send>;

struct Queue {
    events: VecDeque<ServiceEvent>,
    waker: Option<Waker>,
    /// The locality and the callback, if the watcher has one. The callback is `None` while it runs.
    callback: Option<(usize, Option<Callback>)>,
    closed: bool,
}

struct Watcher {
    name: String,
    queue: Mutex<Queue>,
}

/// The watchers. The lock of the names guards them too, so that all watchers see the same order.
#[derive(Default)]
pub(super) struct Watchers(Vec<Arc<Watcher>>);

/// The watchers to tell when no lock is held.
#[derive(Default)]
pub(super) struct Tell(Vec<Told>);

enum Told {
    Wake(Waker),
    Run(usize, Arc<Watcher>),
}

impl Watcher {
    fn push(self: &Arc<Self>, event: ServiceEvent, tell: &mut Tell) {
        let mut queue = self.queue.lock();
        queue.events.push_back(event);
        tell.0.extend(queue.waker.take().map(Told::Wake));
        if let Some((locality, _)) = queue.callback {
            tell.0.push(Told::Run(locality, Arc::clone(self)));
        }
    }

    /// Gives the callback the oldest event, in its locality. A locality runs one job at a time, so no other job runs
    /// the callback.
    fn run(&self, runtime: &Runtime, local: &mut Local<'_>) {
        let (event, callback) = {
            let mut queue = self.queue.lock();
            let callback = queue
                .callback
                .as_mut()
                .and_then(|(_, callback)| callback.take());
            (queue.events.pop_front(), callback)
        };
        let (Some(event), Some(mut callback)) = (event, callback) else {
            return;
        };
        if let Err(panic) = super::caught(|| callback(local, event)) {
            runtime.report(format!(
                "a watcher of service `{}` panicked and gets no more events: {panic}",
                self.name
            ));
            super::fenced(|| drop(callback));
            return;
        }
        let mut queue = self.queue.lock();
        if let Some((_, place)) = &mut queue.callback {
            *place = Some(callback);
        }
    }
}

impl Tell {
    pub(super) fn all(self, runtime: &Runtime) {
        for told in self.0 {
            match told {
                Told::Wake(waker) => super::fenced(|| waker.wake()),
                Told::Run(locality, watcher) => {
                    let of = runtime.detached();
                    let run = move |local: &mut Local<'_>| watcher.run(&of, local);
                    // After the end of the runtime, no watcher is told.
                    let _ = runtime.post(locality, run);
                }
            }
        }
    }
}

fn event(entry: &Entry, happened: Happened) -> ServiceEvent {
    ServiceEvent {
        service: entry.name.clone(),
        owner: entry.owner.clone(),
        signature: entry.signature,
        happened,
    }
}

impl Watchers {
    pub(super) fn tell(&self, entry: &Entry, happened: Happened, tell: &mut Tell) {
        for watcher in self.0.iter().filter(|watcher| watcher.name == entry.name) {
            watcher.push(event(entry, happened), tell);
        }
    }

    /// Closes all watchers: no event follows. Returns the wakers to wake.
    pub(super) fn close(&mut self) -> Vec<Waker> {
        let all = std::mem::take(&mut self.0);
        let close = |watcher: Arc<Watcher>| {
            let mut queue = watcher.queue.lock();
            queue.closed = true;
            queue.waker.take()
        };
        all.into_iter().filter_map(close).collect()
    }
}

impl Registry {
    /// Changes the lifecycle of a service, and tells its watchers if the service is still registered. Both are one
    /// step: a new watcher either finds the change or gets its event, never both.
    pub(super) fn change<T>(
        &self,
        runtime: &Runtime,
        entry: &Arc<Entry>,
        change: impl FnOnce(&mut Lifecycle) -> (Option<Happened>, T),
    ) -> T {
        let mut tell = Tell::default();
        let changed = {
            let names = self.names.lock();
            let (happened, changed) = entry.lifecycle(change);
            let current = names.by_name.get(&entry.name);
            if let Some(happened) = happened
                && current.is_some_and(|current| Arc::ptr_eq(current, entry))
            {
                names.watchers.tell(entry, happened, &mut tell);
            }
            changed
        };
        tell.all(runtime);
        changed
    }
}

/// The events of the service of one name, in order, each once. A subscription begins with the present: a registered
/// service is reported at once. Events that were not taken are kept. Each registration adds as much memory as its names
/// are long.
#[must_use = "the events end when this value is dropped"]
pub struct Subscription {
    watcher: Arc<Watcher>,
    services: Services,
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subscription({:?})", self.watcher.name)
    }
}

impl Subscription {
    /// Returns the next event, or `None` after the runtime has ended.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn next(&mut self) -> Option<ServiceEvent> {
        poll_fn(|cx| {
            let mut queue = self.watcher.queue.lock();
            if let Some(event) = queue.events.pop_front() {
                return Poll::Ready(Some(event));
            }
            if queue.closed {
                return Poll::Ready(None);
            }
            let old = queue.waker.replace(cx.waker().clone());
            drop(queue);
            // The waker may be user code, so it is dropped without the lock.
            drop(old);
            Poll::Pending
        })
        .await
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.services.forget(&self.watcher);
    }
}

/// A callback for the events of a service. Dropping this removes the callback, which may be running for the last time
/// then.
#[must_use = "the callback is removed when this value is dropped"]
pub struct Watching {
    watcher: Arc<Watcher>,
    services: Services,
}

impl fmt::Debug for Watching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watching({:?})", self.watcher.name)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let callback = self.watcher.queue.lock().callback.take();
        super::fenced(|| drop(callback));
        self.services.forget(&self.watcher);
    }
}

impl Services {
    fn watch(&self, name: String, callback: Option<(usize, Option<Callback>)>) -> Arc<Watcher> {
        let mut tell = Tell::default();
        let watcher = Arc::new(Watcher {
            name,
            queue: Mutex::new(Queue {
                events: VecDeque::new(),
                waker: None,
                callback,
                closed: false,
            }),
        });
        {
            let mut names = self.registry.names.lock();
            if names.ended {
                watcher.queue.lock().closed = true;
            }
            if let Some(entry) = names.by_name.get(&watcher.name) {
                watcher.push(event(entry, Happened::Registered), &mut tell);
                if entry.state() == ServiceState::Started {
                    watcher.push(event(entry, Happened::Started), &mut tell);
                }
            }
            names.watchers.0.push(Arc::clone(&watcher));
        }
        tell.all(&self.runtime);
        watcher
    }

    fn forget(&self, watcher: &Arc<Watcher>) {
        let mut names = self.registry.names.lock();
        names.watchers.0.retain(|one| !Arc::ptr_eq(one, watcher));
    }

    /// Subscribes to the events of the service of this name: the present state first, then each new event.
    pub fn subscribe(&self, name: impl Into<String>) -> Subscription {
        Subscription {
            watcher: self.watch(name.into(), None),
            services: self.clone(),
        }
    }

    /// Like [`subscribe`](Self::subscribe), with a callback that runs in this locality, once for each event, in order.
    /// A callback that panics is not called again, and is reported in
    /// [`Operations::incidents`](fom_runtime::observe::Operations::incidents).
    ///
    /// # Errors
    ///
    /// [`CallError::NoSuchLocality`].
    pub fn subscribe_in(
        &self,
        locality: usize,
        name: impl Into<String>,
        callback: impl FnMut(&mut Local<'_>, ServiceEvent) + Send + 'static,
    ) -> Result<Watching, CallError> {
        if locality >= self.runtime.localities() {
            return Err(CallError::NoSuchLocality(locality));
        }
        let callback: Callback = Box::new(callback);
        Ok(Watching {
            watcher: self.watch(name.into(), Some((locality, Some(callback)))),
            services: self.clone(),
        })
    }
}
