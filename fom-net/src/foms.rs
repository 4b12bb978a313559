//! The foms of a server, and the sockets that their localities watch.

use std::{fmt, future::Future, io, pin::Pin};

use fom_runtime::{FomRef, Operation, Runtime, submission::Placement};
use tokio::sync::watch;

use crate::ServeError;

/// Becomes ready when the server stops.
#[derive(Debug)]
pub(crate) struct Stop(watch::Receiver<()>);

impl Stop {
    pub(crate) async fn wait(&mut self) {
        // The other end sends nothing, and goes away.
        let _ = self.0.changed().await;
    }
}

/// The foms of a server. They hear of its end when this value is dropped.
pub(crate) struct Foms {
    ends: Vec<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
    stop: watch::Sender<()>,
}

impl Foms {
    pub(crate) fn new() -> Self {
        Self {
            ends: Vec::new(),
            stop: watch::Sender::new(()),
        }
    }

    pub(crate) fn start<O: Operation>(
        &mut self,
        runtime: &Runtime,
        locality: usize,
        make: impl FnOnce(Stop) -> O,
    ) -> Result<FomRef<O>, ServeError> {
        let operation = make(Stop(self.stop.subscribe()));
        let submission = runtime
            .submit(operation)
            .place(Placement::Locality(locality));
        let begun = submission
            .start()
            .map_err(|refused| ServeError::Refused(refused.reason()))?;
        let fom = begun.fom().clone();
        self.ends.push(Box::pin(async move {
            // A failure is kept by the runtime, as that of each fom.
            let _ = begun.await;
        }));
        Ok(fom)
    }

    /// Tells the foms that the server ends, and waits until they have ended.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        for end in self.ends {
            end.await;
        }
    }
}

impl fmt::Debug for Foms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Foms({})", self.ends.len())
    }
}

/// A socket that the reactor of a locality watches, once its fom runs there.
#[derive(Debug)]
pub(crate) struct Watched<B, W> {
    bound: Option<B>,
    watched: Option<W>,
}

impl<B, W> Watched<B, W> {
    pub(crate) fn new(bound: B) -> Self {
        Self {
            bound: Some(bound),
            watched: None,
        }
    }

    /// Returns the socket, watched by the reactor of this locality from the first call on.
    pub(crate) fn get(&mut self, watch: impl FnOnce(B) -> io::Result<W>) -> io::Result<&W> {
        if let Some(bound) = self.bound.take() {
            self.watched = Some(watch(bound)?);
        }
        self.watched
            .as_ref()
            .ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}
