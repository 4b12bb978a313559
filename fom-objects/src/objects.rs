//! The objects of one type, in one slot.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fom_cluster::{Answers, Asked};
use fom_patterns::active::{self, Activation, RemoteActive};
use fom_runtime::{Builder, Key, error::RefusedReason, time::Instant};
use tokio::sync;

use crate::cx::ObjectCx;

/// An object without a call for so long is ended.
const IDLE: Duration = Duration::from_secs(15 * 60);
/// How long an object may take to end before the next one with its key is made.
const AGAIN: Duration = Duration::from_millis(10);

/// Adds the objects of a slot to its runtime.
pub(crate) fn set_up<A: RemoteActive>(builder: Builder) -> Builder {
    builder.resource(Arc::new(Here::<A>::default()))
}

/// The object of a key, if it is made. The lock is held while it is made.
type Object<A> = Arc<sync::Mutex<Option<<A as active::Active>::Proxy>>>;

/// The objects of a slot: a resource of its runtime.
struct Here<A: RemoteActive>(Mutex<Inner<A>>);

struct Inner<A: RemoteActive> {
    objects: HashMap<Key, (Object<A>, Instant)>,
    /// When objects without calls were looked for.
    looked: Instant,
}

impl<A: RemoteActive> Default for Here<A> {
    fn default() -> Self {
        Self(Mutex::new(Inner {
            objects: HashMap::new(),
            looked: Instant::START,
        }))
    }
}

impl<A: RemoteActive> Here<A> {
    /// Returns the place of the object of a key.
    fn object(&self, key: &Key, now: Instant) -> Object<A> {
        let mut idle = Vec::new();
        let object = {
            let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if now - inner.looked >= IDLE / 15 {
                inner.looked = now;
                let is_idle = |_: &Key, (object, called): &mut (Object<A>, Instant)| {
                    // A call that is not answered holds the object.
                    now - *called >= IDLE && Arc::strong_count(object) == 1
                };
                idle.extend(inner.objects.extract_if(is_idle));
            }
            let (object, called) = inner
                .objects
                .entry(key.clone())
                .or_insert_with(|| (Object::<A>::default(), now));
            *called = now;
            Arc::clone(object)
        };
        // Outside of the lock: the last proxy ends its object.
        drop(idle);
        object
    }
}

/// Returns what makes objects, and answers calls of them.
pub(crate) fn answers<A, E, R>(make: impl Fn(ObjectCx) -> R + Send + Sync + 'static) -> impl Answers
where
    A: RemoteActive,
    E: fmt::Display + 'static,
    R: Future<Output = Result<Activation<A>, E>> + Send + 'static,
{
    let make = Arc::new(make);
    move |asked| answer(Arc::clone(&make), asked)
}

async fn answer<A, E, R>(make: Arc<impl Fn(ObjectCx) -> R>, asked: Asked) -> Vec<u8>
where
    A: RemoteActive,
    E: fmt::Display,
    R: Future<Output = Result<Activation<A>, E>>,
{
    let Asked {
        runtime,
        term,
        key,
        body,
        ..
    } = asked;
    let cx = ObjectCx { key, runtime, term };
    let Some(here) = cx.runtime.resource::<Arc<Here<A>>>() else {
        return active::failure("the runtime of the slot is not set up for objects");
    };
    let object = here.object(&cx.key, cx.runtime.now());
    let answer = {
        let mut object = object.lock().await;
        if object.as_ref().is_none_or(|object| object.has_ended()) {
            match start(&*make, &cx).await {
                Ok(made) => *object = Some(made),
                Err(why) => return active::failure(why),
            }
        }
        match &*object {
            Some(object) => active::answer::<A>(object, &body),
            None => unreachable!("it was made"),
        }
    };
    let answer = answer.await;
    // Until here, the object has a call.
    drop(object);
    answer
}

/// Makes the object of a key.
async fn start<A, E, R>(make: &impl Fn(ObjectCx) -> R, cx: &ObjectCx) -> Result<A::Proxy, String>
where
    A: RemoteActive,
    E: fmt::Display,
    R: Future<Output = Result<Activation<A>, E>>,
{
    loop {
        let ObjectCx { key, runtime, .. } = cx;
        let made = make(cx.clone()).await;
        let activation = made.map_err(|error| {
            format!("the object `{} {key}` could not be made: {error}", A::NAME)
        })?;
        match activation.key(key.clone()).start(runtime) {
            Ok(object) => return Ok(object),
            // The last one has not ended yet.
            Err(refused) if refused.reason == RefusedReason::KeyInUse => {
                runtime.sleep(AGAIN).await;
            }
            Err(refused) => return Err(refused.to_string()),
        }
    }
}
