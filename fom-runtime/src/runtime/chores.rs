//! Chores: periodic work in each locality, with its own data there.

use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::oneshot;

use crate::{
    defaults::BoxError,
    runtime::{Local, Runtime, Shared},
};

/// A chore that could not begin. Where it had begun already, it was removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChoreError {
    /// The interval is zero: nothing else would ever run.
    #[error("a chore needs an interval of more than nothing")]
    NoInterval,
    /// It could not begin in one of the localities.
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
    /// A locality did not answer.
    #[error(
        "a locality did not answer: the runtime has shut down, or what begins the chore {0} panicked"
    )]
    Dropped(String),
}

/// Periodic work in every locality. Dropping this removes it. See [`Runtime::chore`].
#[must_use = "the chore is taken off when this is dropped"]
pub struct Chore {
    shared: Weak<Shared>,
    id: u64,
    name: Arc<str>,
}

impl fmt::Debug for Chore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chore({})", self.name)
    }
}

impl Runtime {
    /// Runs a function in every locality at each interval on the runtime's clock, also in a locality that is idle. The
    /// function has the locality's data in reach, and never runs beside a fom of that locality. It must not block.
    ///
    /// `begin` runs in each locality, and returns the function to run at each tick. What that closure owns is the
    /// chore's own data in the locality. It is made there and dropped there.
    ///
    /// When this returns, the chore has begun everywhere. If `begin` has failed anywhere, the chore runs nowhere. The
    /// first tick comes after one interval; missed ticks are not made up for.
    ///
    /// A tick that panics removes the chore in that locality, and is reported in
    /// [`Operations::incidents`](crate::observe::Operations::incidents).
    ///
    /// The idea is Motr's, where chores tick only while the locality has other work.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use fom_runtime::{prelude::*, time::TestClock};
    /// struct Sessions(Vec<(u64, Duration)>);
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
    /// # let clock = TestClock::new();
    /// let runtime = Runtime::builder()
    ///     .localities(2)
    ///     .locality_data(|_| Ok::<_, BoxError>(Sessions(vec![(1, Duration::from_secs(30))])))
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
    pub async fn chore<T, E>(
        &self,
        name: &str,
        every: Duration,
        begin: impl Fn(&mut Local<'_>) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Chore, ChoreError>
    where
        T: FnMut(&mut Local<'_>) + Send + 'static,
        E: Into<BoxError>,
    {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        if every.is_zero() {
            return Err(ChoreError::NoInterval);
        }
        let every = fom_protocol::nanos(every);
        let begin = Arc::new(begin);
        let chore = Chore {
            shared: Arc::downgrade(&self.shared),
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name: name.into(),
        };
        let (id, mut begun) = (chore.id, Vec::new());
        for home in &self.shared.localities {
            let (tell, told) = oneshot::channel();
            let (begin, name) = (Arc::clone(&begin), Arc::clone(&chore.name));
            home.post_job(Box::new(move |core| {
                let done = begin(&mut Local::new(core)).map(|mut tick| {
                    let tick = Box::new(move |core: &mut _| tick(&mut Local::new(core)));
                    core.add_chore(id, name, every, tick);
                });
                // The caller may be gone. Then a job behind this one removes the chore.
                let _ = tell.send(done.map_err(Into::into));
            }));
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
    /// Removes the chore everywhere, and waits for that. When this returns, the chore does not run, and its data is
    /// dropped.
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
        self.shared = Weak::new();
    }

    fn take_off(&mut self) -> Vec<oneshot::Receiver<()>> {
        let Some(shared) = std::mem::take(&mut self.shared).upgrade() else {
            return Vec::new();
        };
        let id = self.id;
        let take_off = |home: &crate::locality::Locality| {
            let (tell, told) = oneshot::channel();
            home.post_job(Box::new(move |core| {
                core.remove_chore(id);
                // Not every caller waits for it.
                let _ = tell.send(());
            }));
            told
        };
        shared.localities.iter().map(take_off).collect()
    }
}

impl Drop for Chore {
    fn drop(&mut self) {
        self.take_off();
    }
}
