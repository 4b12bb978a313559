//! Events of services that come and go, and their watchers.

use std::{collections::VecDeque, fmt, sync::Arc};

use tokio::sync::Notify;

use crate::service::{
    ServiceState, Services, Signature,
    entry::{Entry, Lifecycle},
    registry::Names,
};
use fom_protocol::sync::Mutex;
use fom_runtime::{Runtime, context::Local, error::CallError, observe::IncidentKind};

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

#[derive(Default)]
struct Queue {
    events: VecDeque<ServiceEvent>,
    /// The callback, if the watcher has one, unless it runs.
    callback: Option<Callback>,
    /// The runtime has ended: no event follows.
    closed: bool,
    /// The handle of the watcher is dropped: the callback does not run again.
    dropped: bool,
}

pub(super) struct Watcher {
    name: String,
    /// The locality of the callback, if the watcher has one.
    locality: Option<usize>,
    queue: Mutex<Queue>,
    /// Notified after each change of the queue. A channel of tokio does not serve here, because its `send` wakes the
    /// receiver at once. The order of events needs a lock, and a waker, which may be user code, must not run under it.
    changed: Notify,
}

impl Watcher {
    /// Tells the subscriber, or runs the callback in its locality, after a change of the queue. The caller holds no
    /// lock.
    fn tell(self: Arc<Self>, runtime: &Runtime) {
        let Some(locality) = self.locality else {
            return super::fenced(|| self.changed.notify_one());
        };
        let of = runtime.detached();
        // After the end of the runtime, no callback runs.
        let _ = runtime.post(locality, move |local| self.run(&of, local));
    }

    /// Gives the callback the oldest event, in its locality. A locality runs one job at a time, so no other job runs
    /// the callback.
    fn run(&self, runtime: &Runtime, local: &mut Local<'_>) {
        let (event, callback) = {
            let mut queue = self.queue.lock();
            (queue.events.pop_front(), queue.callback.take())
        };
        let (Some(event), Some(mut callback)) = (event, callback) else {
            return;
        };
        let ran = super::caught(|| callback(local, event));
        let mut queue = self.queue.lock();
        let gone = match ran {
            Ok(()) if !queue.dropped => {
                queue.callback = Some(callback);
                return;
            }
            _ => callback,
        };
        drop(queue);
        if let Err(panic) = ran {
            let name = &self.name;
            runtime.report(
                IncidentKind::Panicked,
                format!("service `{name}`"),
                format!("a watcher of service `{name}` panicked and gets no more events: {panic}"),
            );
        }
        super::fenced(|| drop(gone));
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

impl Names {
    /// Adds an event to the queues of the service's watchers. [`Services::with_names`] tells them.
    pub(super) fn tell(&mut self, entry: &Entry, happened: Happened) {
        for watcher in &self.watchers {
            if watcher.name == entry.name {
                let event = event(entry, happened);
                watcher.queue.lock().events.push_back(event);
                self.told.push(Arc::clone(watcher));
            }
        }
    }

    /// Closes all watchers: no event follows.
    pub(super) fn close(&mut self) {
        for watcher in &self.watchers {
            watcher.queue.lock().closed = true;
        }
        self.told.append(&mut self.watchers);
    }
}

impl Services {
    /// Reads or changes the services in one step. All watchers see the same order of steps. `f` must be short and must
    /// not run user code.
    pub(super) fn with_names<T>(&self, f: impl FnOnce(&mut Names) -> T) -> T {
        let (changed, told) = {
            let mut names = self.registry.names.lock();
            (f(&mut names), std::mem::take(&mut names.told))
        };
        for watcher in told {
            watcher.tell(&self.runtime);
        }
        changed
    }

    /// Changes the lifecycle of a service, and tells its watchers if the service is still registered. Both are one
    /// step: a new watcher either finds the change or gets its event, never both.
    pub(super) fn change(
        &self,
        entry: &Arc<Entry>,
        change: impl FnOnce(&mut Lifecycle) -> Option<Happened>,
    ) {
        self.with_names(|names| {
            let happened = entry.lifecycle(change);
            let current = names.by_name.get(&entry.name);
            if let Some(happened) = happened
                && current.is_some_and(|current| Arc::ptr_eq(current, entry))
            {
                names.tell(entry, happened);
            }
        });
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
        loop {
            {
                let mut queue = self.watcher.queue.lock();
                if let Some(event) = queue.events.pop_front() {
                    return Some(event);
                }
                if queue.closed {
                    return None;
                }
            }
            self.watcher.changed.notified().await;
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let watcher = &self.watcher;
        let mut names = self.services.registry.names.lock();
        names.watchers.retain(|one| !Arc::ptr_eq(one, watcher));
        drop(names);
        let callback = {
            let mut queue = watcher.queue.lock();
            queue.dropped = true;
            queue.callback.take()
        };
        super::fenced(|| drop(callback));
    }
}

/// A callback for the events of a service. Dropping this removes the callback, which may be running for the last time
/// then.
#[must_use = "the callback is removed when this value is dropped"]
pub struct Watching(Subscription);

impl fmt::Debug for Watching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watching({:?})", self.0.watcher.name)
    }
}

impl Services {
    /// Adds a watcher, with a callback in a locality or without.
    fn watch(&self, name: String, callback: Option<(usize, Callback)>) -> Subscription {
        let (locality, callback) = callback.unzip();
        let mut queue = Queue {
            callback,
            ..Queue::default()
        };
        let watcher = self.with_names(|names| {
            queue.closed = names.ended;
            if let Some(entry) = names.by_name.get(&name) {
                queue.events.push_back(event(entry, Happened::Registered));
                if entry.state() == ServiceState::Started {
                    queue.events.push_back(event(entry, Happened::Started));
                }
            }
            let told = queue.events.len();
            let watcher = Arc::new(Watcher {
                name,
                locality,
                queue: Mutex::new(queue),
                changed: Notify::new(),
            });
            names.watchers.push(Arc::clone(&watcher));
            // A callback runs once for each event.
            let told = std::iter::repeat_n(&watcher, told).cloned();
            names.told.extend(told);
            watcher
        });
        Subscription {
            watcher,
            services: self.clone(),
        }
    }

    /// Subscribes to the events of the service of this name: the present state first, then each new event.
    pub fn subscribe(&self, name: impl Into<String>) -> Subscription {
        self.watch(name.into(), None)
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
        let watched = self.watch(name.into(), Some((locality, callback)));
        Ok(Watching(watched))
    }
}
