//! Work for a locality that is not a fom: posts, calls, and functions that run in each locality.

use std::{any::type_name, fmt};

use tokio::sync::oneshot;

use crate::{
    instant::Instant,
    locality::{Core, Locality},
    runtime::Runtime,
};

/// The inside of a locality, where its data is reached without a lock.
pub struct Local<'a> {
    core: &'a mut Core,
}

impl fmt::Debug for Local<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Local({})", self.index())
    }
}

impl<'a> Local<'a> {
    pub(crate) fn new(core: &'a mut Core) -> Self {
        Self { core }
    }

    #[inline]
    pub(crate) fn core(&mut self) -> &mut Core {
        self.core
    }

    pub(crate) fn core_ref(&self) -> &Core {
        self.core
    }
}

impl Local<'_> {
    /// Returns the index of the locality.
    pub fn index(&self) -> usize {
        self.core.home.index
    }

    /// Returns the time on the runtime's clock.
    pub fn now(&self) -> Instant {
        self.core.home.env().clock.now()
    }

    /// Returns the locality's data of this type.
    ///
    /// # Panics
    ///
    /// Panics if the runtime was built without [`locality_data`](crate::Builder::locality_data) of this type.
    pub fn data<T: Send + 'static>(&mut self) -> &mut T {
        match self.core.data_mut() {
            Some(data) => data,
            None => panic!(
                "there is no locality data of type `{0}`; give `Builder::locality_data` one that makes `{0}`",
                type_name::<T>()
            ),
        }
    }
}

/// A call into a locality that was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// There is no such locality.
    #[error("there is no locality {0}")]
    NoSuchLocality(usize),
    /// The runtime has shut down, or the call panicked.
    #[error("the locality did not answer: the runtime has shut down, or the call panicked")]
    Dropped,
}

/// Returns a locality of the runtime by its index.
fn home(runtime: &Runtime, locality: usize) -> Result<&Locality, CallError> {
    let found = runtime.shared.localities.get(locality);
    found.ok_or(CallError::NoSuchLocality(locality))
}

/// Asks a locality to run `f`. If the receiver is dropped before, `f` never runs.
fn ask<R: Send + 'static>(
    home: &Locality,
    f: impl FnOnce(&mut Local<'_>) -> R + Send + 'static,
) -> oneshot::Receiver<R> {
    let (answer, answered) = oneshot::channel();
    home.post_job(Box::new(move |core| {
        if !answer.is_closed() {
            // The caller may be gone by now, and the answer is dropped.
            let _ = answer.send(f(&mut Local::new(core)));
        }
    }));
    answered
}

impl Runtime {
    /// Runs `f` in a locality, soon, and does not wait for it. Posts of one thread run in their order. A post may be
    /// dropped without being run while the runtime shuts down.
    ///
    /// # Errors
    ///
    /// [`CallError::NoSuchLocality`], and [`CallError::Dropped`] after the runtime has shut down.
    pub fn post(
        &self,
        locality: usize,
        f: impl FnOnce(&mut Local<'_>) + Send + 'static,
    ) -> Result<(), CallError> {
        let home = home(self, locality)?;
        if home.is_closed() {
            return Err(CallError::Dropped);
        }
        home.post_job(Box::new(move |core| f(&mut Local::new(core))));
        Ok(())
    }

    /// Runs `f` in a locality and returns its result. From inside that locality, `f` runs at once, in place.
    ///
    /// # Errors
    ///
    /// Fails with [`CallError`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before `f` began, `f` never runs.
    pub async fn call<R: Send + 'static>(
        &self,
        locality: usize,
        f: impl FnOnce(&mut Local<'_>) -> R + Send + 'static,
    ) -> Result<R, CallError> {
        let home = home(self, locality)?;
        let mut f = Some(f);
        let inline = crate::locality::with_core(|core| {
            if !core.home.is(&self.shared.env, home.index) {
                return None;
            }
            f.take().map(|f| f(&mut Local::new(core)))
        });
        if let Some(Some(done)) = inline {
            return Ok(done);
        }
        let Some(f) = f else {
            return Err(CallError::Dropped);
        };
        ask(home, f).await.map_err(|_| CallError::Dropped)
    }

    /// Runs `f` in every locality and returns the results, by locality. Use it to add up counts that the localities
    /// keep without a lock.
    ///
    /// # Errors
    ///
    /// [`CallError::Dropped`] if a locality did not answer.
    pub async fn each<R: Send + 'static>(
        &self,
        f: impl Fn(&mut Local<'_>) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, CallError> {
        let mut asked = Vec::new();
        for (index, home) in self.shared.localities.iter().enumerate() {
            let here = crate::locality::with_core(|core| {
                core.home
                    .is(&self.shared.env, home.index)
                    .then(|| f(&mut Local::new(core)))
            });
            asked.push(match here.flatten() {
                Some(done) => Ok(done),
                None => Err((index, ask(home, f.clone()))),
            });
        }
        let mut all = Vec::new();
        for one in asked {
            all.push(match one {
                Ok(done) => done,
                Err((_, answered)) => answered.await.map_err(|_| CallError::Dropped)?,
            });
        }
        Ok(all)
    }

    /// As [`each`](Self::each), and joins the results of the localities, in their order.
    ///
    /// # Errors
    ///
    /// [`CallError::Dropped`] if a locality did not answer.
    pub async fn reduce<R: Send + 'static>(
        &self,
        f: impl Fn(&mut Local<'_>) -> R + Clone + Send + 'static,
        join: impl FnMut(R, R) -> R,
    ) -> Result<R, CallError> {
        let all = self.each(f).await?;
        // A runtime has at least one locality.
        all.into_iter().reduce(join).ok_or(CallError::Dropped)
    }

    /// Resolves when no fom is in flight. Inside a phase it never resolves, because the phase's own fom is in flight.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn idle(&self) {
        self.shared.idle().await;
    }

    /// Resolves when there is nothing to run: every fom in flight waits, and none is in a blocking section. Tests await
    /// it before they advance their clock.
    ///
    /// A fom that waits for a component, a socket or another task counts as waiting. The runtime cannot know whether
    /// the answer is on its way. Wait for its effect first, with [`FomRef::reached`](crate::FomRef::reached).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn quiet(&self) {
        let mut before = None;
        loop {
            if let Some(recorder) = self.shared.env.recorder() {
                recorder.settle();
            }
            let mut asked = Vec::new();
            for home in &self.shared.localities {
                let (tell, told) = oneshot::channel();
                home.post_job(Box::new(move |core| {
                    // Not counted as a run: otherwise two rounds would never agree.
                    core.runs -= 1;
                    core.quiet.push(tell);
                }));
                asked.push(told);
            }
            let mut runs = Vec::new();
            for told in asked {
                // A locality that has ended is quiet.
                runs.push(told.await.unwrap_or(0));
            }
            // Another locality may have given this one work after it answered. So all must give the same answers twice.
            if before.as_ref() == Some(&runs) {
                return;
            }
            before = Some(runs);
        }
    }
}
