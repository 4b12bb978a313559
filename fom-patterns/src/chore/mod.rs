//! Chores: periodic work in each locality, with its own data there.

mod ticking;

use std::{fmt, future::Future, mem, sync::Arc, time::Duration};

use fom_protocol::{caught, nanos, sync::Mutex};
use fom_runtime::{
    Runtime, context::Local, error::BoxError, extension::PartId, observe::IncidentKind,
};
use tokio::sync::oneshot;

use ticking::Ticking;

/// A chore that could not begin. Where it had begun already, it was removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChoreError {
    /// The interval is zero: nothing else would ever run.
    #[error("a chore needs an interval of more than nothing")]
    NoInterval,
    /// The chore could not begin in one of the localities.
    #[error("the chore {name} could not begin in locality {locality}: {source}")]
    Begin {
        /// The name of the chore.
        name: String,
        /// The index of the locality.
        locality: usize,
        /// The error that `begin` returned there.
        #[source]
        source: BoxError,
    },
    /// A locality did not answer, or what begins the chore panicked there.
    #[error(
        "a locality did not answer: the runtime has shut down, or what begins the chore {0} panicked"
    )]
    Dropped(String),
}

/// Periodic work in every locality. Dropping this removes it. See [`ChoreExt::chore`].
#[must_use = "the chore is removed when this is dropped"]
pub struct Chore {
    /// `None` if the chore is not to be removed.
    runtime: Option<Runtime>,
    name: Arc<str>,
    places: Arc<Places>,
}

/// The places of a chore, by locality.
struct Places(Mutex<Vec<Option<PartId<Ticking>>>>);

impl fmt::Debug for Chore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chore({})", self.name)
    }
}

/// Adds chores to a [`Runtime`].
pub trait ChoreExt {
    /// Runs a function in every locality at each interval on the runtime's clock, also in a locality that is idle. The
    /// function has the locality's data in reach, and never runs beside a fom of that locality. It must not block.
    ///
    /// `begin` runs in each locality, and returns the function to run at each tick. The values that this function owns
    /// are the chore's own data in the locality. They are made there and dropped there.
    ///
    /// When this method returns, the chore has begun everywhere. If `begin` has failed anywhere, the chore runs nowhere.
    /// The first tick comes after one interval. The chore does not make up for missed ticks.
    ///
    /// A tick that panics removes the chore in that locality, and is reported in
    /// [`Operations::incidents`](fom_runtime::observe::Operations::incidents).
    ///
    /// A chore is never on disk: it begins anew with each start of the program.
    ///
    /// The idea is Motr's, where chores tick only while the locality has other work.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use fom_patterns::prelude::*;
    /// # use fom_runtime::time::TestClock;
    /// use fom_runtime::time::Instant;
    ///
    /// struct Sessions(Vec<(u64, Instant)>);
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
    /// # let clock = TestClock::new();
    /// let runtime = Runtime::builder()
    ///     .localities(2)
    ///     .locality_data(|_| Ok::<_, BoxError>(Sessions(vec![(1, Instant::START + Duration::from_secs(30))])))
    /// #   .clock(clock.clone())
    ///     .build()?;
    /// let forget = runtime
    ///     .chore("forget old sessions", Duration::from_secs(10), |local| {
    ///         println!("begins in locality {}", local.index());
    ///         let mut forgotten = 0;
    ///         Ok::<_, BoxError>(move |local: &mut Local<'_>| {
    ///             let now = local.now();
    ///             let sessions = &mut local.data::<Sessions>().0;
    ///             let before = sessions.len();
    ///             sessions.retain(|(_, until)| now < *until);
    ///             forgotten += before - sessions.len();
    ///         })
    ///     })
    ///     .await?;
    /// # clock.advance(Duration::from_secs(30));
    /// # runtime.quiet().await;
    /// let left = runtime.reduce(|local| local.data::<Sessions>().0.len(), |a, b| a + b).await?;
    /// # assert_eq!(left, 0);
    /// forget.stop().await;
    /// # Ok(()) }
    /// # use fom_runtime::context::Local;
    /// ```
    ///
    /// # Errors
    ///
    /// Fails with [`ChoreError`]; then the chore runs nowhere.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the chore is removed where it has begun.
    fn chore<T, E>(
        &self,
        name: &str,
        every: Duration,
        begin: impl Fn(&mut Local<'_>) -> Result<T, E> + Send + Sync + 'static,
    ) -> impl Future<Output = Result<Chore, ChoreError>> + Send
    where
        T: FnMut(&mut Local<'_>) + Send + 'static,
        E: Into<BoxError>;
}

impl ChoreExt for Runtime {
    async fn chore<T, E>(
        &self,
        name: &str,
        every: Duration,
        begin: impl Fn(&mut Local<'_>) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Chore, ChoreError>
    where
        T: FnMut(&mut Local<'_>) + Send + 'static,
        E: Into<BoxError>,
    {
        if every.is_zero() {
            return Err(ChoreError::NoInterval);
        }
        let chore = Chore {
            runtime: Some(self.detached()),
            name: name.into(),
            places: Arc::new(Places(Mutex::new(vec![None; self.localities()]))),
        };
        let (every, begin) = (nanos(every), Arc::new(begin));
        let mut begun = Vec::new();
        for locality in 0..self.localities() {
            let (tell, told) = oneshot::channel();
            let (begin, name) = (Arc::clone(&begin), Arc::clone(&chore.name));
            let (runtime, places) = (self.detached(), Arc::clone(&chore.places));
            // If the locality has ended, it drops `tell`.
            let _ = self.post(locality, move |local| {
                let done = begin(local).map(|tick| {
                    let ticking = Ticking::new(runtime, name, every, Box::new(tick));
                    places.0.lock()[locality] = Some(ticking.begin(local));
                });
                // The caller may be gone. Then a message behind this one removes the chore.
                let _ = tell.send(done.map_err(Into::into));
            });
            begun.push(told);
        }
        let mut failed = None;
        for (locality, told) in begun.into_iter().enumerate() {
            let name = || name.to_owned();
            let error = match told.await {
                Ok(Ok(())) => continue,
                Ok(Err(source)) => ChoreError::Begin {
                    name: name(),
                    locality,
                    source,
                },
                Err(_) => ChoreError::Dropped(name()),
            };
            failed.get_or_insert(error);
        }
        match failed {
            None => Ok(chore),
            Some(error) => {
                chore.stop().await;
                Err(error)
            }
        }
    }
}

impl Chore {
    /// Removes the chore everywhere, and waits until it is removed. When this method returns, the chore does not run, and
    /// its data is dropped.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the chore is removed all the same.
    pub async fn stop(mut self) {
        for told in self.take_off() {
            // A locality that has ended has dropped it.
            let _ = told.await;
        }
    }

    /// Keeps the chore as long as the runtime lives.
    pub fn forever(mut self) {
        self.runtime = None;
    }

    fn take_off(&mut self) -> Vec<oneshot::Receiver<()>> {
        let Some(runtime) = mem::take(&mut self.runtime) else {
            return Vec::new();
        };
        let take_off = |locality| {
            let (tell, told) = oneshot::channel();
            let (places, of, name) = (
                Arc::clone(&self.places),
                runtime.detached(),
                Arc::clone(&self.name),
            );
            // If the locality has ended, it has dropped the chore.
            let _ = runtime.post(locality, move |local| {
                let place = places.0.lock()[locality].take();
                let gone = place.and_then(|place| local.remove_part(place));
                // The data of the chore is the user's.
                if let Err(message) = caught(|| drop(gone)) {
                    let index = local.index();
                    of.report(IncidentKind::Panicked, format!("chore {name}"), format!(
                        "the chore {name} panicked in locality {index} while it was removed: {message}"
                    ));
                }
                // Not every caller waits for it.
                let _ = tell.send(());
            });
            told
        };
        (0..runtime.localities()).map(take_off).collect()
    }
}

impl Drop for Chore {
    fn drop(&mut self) {
        self.take_off();
    }
}
