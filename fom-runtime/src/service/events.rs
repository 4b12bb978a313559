//! Who wants to know when a service comes and goes.

use std::{
    collections::VecDeque,
    fmt,
    future::poll_fn,
    sync::Arc,
    task::{Poll, Waker},
};

use crate::{
    runtime::{CallError, Local, Runtime, World},
    service::{
        ServiceState, Services, Signature,
        entry::{Entry, Life},
        registry::Registry,
    },
    sync::Mutex,
};

/// Something that happened to a service.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceEvent {
    /// Its name.
    pub service: String,
    /// Who registered it.
    pub owner: String,
    /// The types of its function.
    pub signature: Signature,
    /// What.
    pub happened: Happened,
}

/// What happened to a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Happened {
    /// It was registered.
    Registered,
    /// It can be called. One that has nothing to do for that is started in the moment in which it is registered.
    Started,
    /// It was stopped. It may be started again, unless the runtime has ended.
    Stopped,
    /// It was unregistered. Calls that run may still do so.
    Unregistered,
}

type Callback = Box<dyn FnMut(&mut Local<'_>, ServiceEvent) + Send>;

struct Queue {
    events: VecDeque<ServiceEvent>,
    waker: Option<Waker>,
    /// Where and how it is told, if it does not come and ask. Away while it runs.
    callback: Option<(usize, Option<Callback>)>,
    closed: bool,
}

struct Watcher {
    name: String,
    queue: Mutex<Queue>,
}

/// Those who watch; part of what the lock of the names guards, so that all see one order.
#[derive(Default)]
pub(super) struct Watchers(Vec<Arc<Watcher>>);

/// Who is to be told, when no lock is held any more.
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

    /// In its locality: the callback gets the oldest event. Jobs of one locality follow each other, so it is never away.
    fn run(&self, world: &World, local: &mut Local<'_>) {
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
            world.incident(format!(
                "who watched service `{}` panicked and is told no more: {panic}",
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
    pub(super) fn all(self, world: &Arc<World>) {
        for told in self.0 {
            match told {
                Told::Wake(waker) => super::fenced(|| waker.wake()),
                Told::Run(locality, watcher) => {
                    let of = Arc::clone(world);
                    let run = move |local: &mut Local<'_>| watcher.run(&of, local);
                    // After the end nobody is told of anything.
                    let _ = Runtime::of(world).post(locality, run);
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

    /// Nothing happens any more.
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
    /// Changes the life of a service, and tells those who watch it, if it is registered still. In one step: who begins to watch
    /// sees what is so or hears of it, and never both.
    pub(super) fn change<T>(
        &self,
        world: &Arc<World>,
        entry: &Arc<Entry>,
        change: impl FnOnce(&mut Life) -> (Option<Happened>, T),
    ) -> T {
        let mut tell = Tell::default();
        let changed = {
            let names = self.names.lock();
            let (happened, changed) = entry.life(change);
            let current = names.by_name.get(&entry.name);
            if let Some(happened) = happened
                && current.is_some_and(|current| Arc::ptr_eq(current, entry))
            {
                names.watchers.tell(entry, happened, &mut tell);
            }
            changed
        };
        tell.all(world);
        changed
    }
}

/// Hears what happens to the service of one name, in order, each thing once. Begins with what is so already: a service that is
/// there is told of at once. What was not taken yet is kept; each registration adds as much as its names are long.
#[must_use = "nothing is heard any more when this is dropped"]
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
    /// The next thing that happened; none after the runtime has ended.
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
            // It may be anybody's: dropped without the lock.
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

/// A callback that hears what happens to a service. Dropping it takes the callback off; it may be running for the last time then.
#[must_use = "the callback is taken off when this is dropped"]
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
        tell.all(&self.world);
        watcher
    }

    fn forget(&self, watcher: &Arc<Watcher>) {
        let mut names = self.registry.names.lock();
        names.watchers.0.retain(|one| !Arc::ptr_eq(one, watcher));
    }

    /// Hears what happens to the service of this name, from now on, and of what is so already.
    pub fn subscribe(&self, name: impl Into<String>) -> Subscription {
        Subscription {
            watcher: self.watch(name.into(), None),
            services: self.clone(),
        }
    }

    /// As [`subscribe`](Self::subscribe), as a callback that runs in this locality, once for each event, in their order. One that
    /// panics is told no more, and reported in [`Operations::incidents`](crate::Operations::incidents).
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
        if locality >= self.world.localities.len() {
            return Err(CallError::NoSuchLocality(locality));
        }
        let callback: Callback = Box::new(callback);
        Ok(Watching {
            watcher: self.watch(name.into(), Some((locality, Some(callback)))),
            services: self.clone(),
        })
    }
}
