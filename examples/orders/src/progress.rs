//! The progress of an order: its phases as server-sent events, until its end.

use std::{convert::Infallible, pin::Pin};

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::sse::{Event, KeepAlive, Sse},
};
use futures::{Stream, StreamExt, stream};
use tokio::sync::broadcast::{Receiver, error::RecvError};

use crate::{order::Order, web::App};

/// A committed step of an order.
#[derive(Clone, Debug)]
pub struct Step {
    /// The client's name for the order.
    pub reference: String,
    /// The phase that the order is in now.
    pub phase: String,
}

/// The steps that a client has not seen yet.
struct Progress {
    app: App,
    reference: String,
    /// What the client saw last.
    last: Option<String>,
    steps: Receiver<Step>,
    /// The end of the order, or `None` after it.
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Progress {
    /// Returns the next phase, or `None` after the end.
    async fn next(&mut self) -> Option<String> {
        let phase = match self.last {
            Some(_) => self.told().await,
            None => self.app.phase(&self.reference),
        };
        self.last.clone_from(&phase);
        phase
    }

    /// Waits until the order is in another phase, or has ended.
    async fn told(&mut self) -> Option<String> {
        while let Some(end) = &mut self.end {
            let step = tokio::select! {
                biased;
                step = self.steps.recv() => step,
                () = end => Err(RecvError::Closed),
            };
            let phase = match step {
                Ok(step) if step.reference == self.reference => Some(step.phase),
                Ok(_) => None,
                // The client was slow, and steps are lost: it hears where the order is.
                Err(RecvError::Lagged(_)) => self.app.phase(&self.reference),
                Err(RecvError::Closed) => {
                    self.end = None;
                    self.app.phase(&self.reference)
                }
            };
            if phase.is_some() && phase != self.last {
                return phase;
            }
        }
        None
    }
}

/// Streams the phases of an order. The last one is its end.
pub(crate) async fn progress(
    State(app): State<App>,
    Path(reference): Path<String>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, StatusCode> {
    // The stream listens before it looks, so it misses no step between the two.
    let steps = app.steps.subscribe();
    let order = app.runtime.find::<Order>(&*reference);
    app.phase(&reference).ok_or(StatusCode::NOT_FOUND)?;
    let progress = Progress {
        app,
        reference,
        last: None,
        steps,
        end: order.map(|order| {
            let end = order.reached([]);
            let end: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async { _ = end.await });
            end
        }),
    };
    let phases = stream::unfold(progress, async |mut progress| {
        let phase = progress.next().await?;
        Some((phase, progress))
    });
    let events = phases.map(|phase| Ok(Event::default().data(phase)));
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}
