//! The service over HTTP.

use std::convert::Infallible;

use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
    routing::{get, post},
};
use fom_durable::{Lookup, NotSent, NotSentReason, prelude::*};
use futures::{Stream, StreamExt, stream};
use serde_json::{Value, json};
use tokio::sync::broadcast::{self, error::RecvError};

use crate::{
    order::{News, Order},
    provider::Webhook,
};

/// What the handlers share.
#[derive(Clone, Debug)]
pub struct App {
    /// Runs the orders.
    pub runtime: Runtime,
    /// Each committed step of each order.
    pub steps: broadcast::Sender<Step>,
}

/// A committed step of an order.
#[derive(Clone, Debug)]
pub struct Step {
    /// The client's name for the order.
    pub reference: String,
    /// The phase that the order is in now.
    pub phase: String,
    /// Whether that is an end.
    pub is_end: bool,
}

/// The routes of the service.
pub fn routes(app: App) -> Router {
    Router::new()
        .route("/orders", post(order))
        .route("/orders/{reference}", get(show).delete(cancel))
        .route("/orders/{reference}/progress", get(progress))
        .route("/webhooks/payment", post(payment))
        .route("/operations", get(operations))
        .route("/failed/retry", post(retry))
        .with_state(app)
}

/// Takes an order in. The answer "accepted" leaves when the order is on disk. A client that gets no answer asks again,
/// and the order runs once.
async fn order(State(app): State<App>, Json(order): Json<Order>) -> Result<Response, Failed> {
    let (reference, customer) = (order.reference.clone(), order.customer.clone());
    let order = app.runtime.submit(order).key(&*reference).serial(customer);
    order.once(&*reference).start()?.committed().await?;
    let place = format!("/orders/{reference}");
    Ok((StatusCode::ACCEPTED, [("location", place)]).into_response())
}

/// Tells where an order is: its phase, or its end.
async fn show(
    State(app): State<App>,
    Path(reference): Path<String>,
) -> Result<Json<Value>, StatusCode> {
    match app.runtime.outcome::<Order>(reference) {
        Lookup::Ended {
            outcome: Ok(ended), ..
        } => Ok(Json(json!(ended.end))),
        Lookup::Ended {
            outcome: Err(failure),
            ..
        } => Ok(Json(json!({ "failed": failure.to_string() }))),
        Lookup::InFlight(id) => {
            let info = app.runtime.operation(id);
            Ok(Json(json!({ "phase": info.map(|info| info.phase) })))
        }
        Lookup::Quarantined(_) => Ok(Json(json!({ "phase": "on hold" }))),
        _ => Err(StatusCode::NOT_FOUND),
    }
}

/// Gives an order up, unless its parcel is on its way. It goes back the way it came: the money, then the goods.
async fn cancel(
    State(app): State<App>,
    Path(reference): Path<String>,
) -> Result<StatusCode, Response> {
    app.send(&reference, News::GivenUp, "given up").await
}

/// The provider's answer.
async fn payment(
    State(app): State<App>,
    Json(webhook): Json<Webhook>,
) -> Result<StatusCode, Response> {
    let news = match webhook.paid {
        true => News::Paid,
        false => News::Declined,
    };
    app.send(&webhook.reference, news, &webhook.id).await
}

impl App {
    /// Tells an order the news. They are on disk when the sender hears that it may forget them. Repeated news with the
    /// same id change nothing.
    async fn send(&self, reference: &str, news: News, id: &str) -> Result<StatusCode, Response> {
        match self
            .runtime
            .send_durably::<Order>(reference, news, id)
            .await
        {
            Ok(_) => Ok(StatusCode::ACCEPTED),
            // The order has ended, or there was none.
            Err(NotSent {
                reason: NotSentReason::NoReceiver { .. },
                ..
            }) => Ok(StatusCode::NO_CONTENT),
            Err(error) => Err(Failed::from(error.to_string()).into_response()),
        }
    }

    /// Returns where an order is now.
    fn step(&self, reference: &str) -> Result<Step, StatusCode> {
        let step = |phase, is_end| Step {
            reference: reference.to_owned(),
            phase,
            is_end,
        };
        match self.runtime.outcome::<Order>(reference) {
            Lookup::Ended {
                outcome: Ok(ended), ..
            } => Ok(step(format!("{:?}", ended.kind()), true)),
            Lookup::InFlight(id) => {
                let phase = self.runtime.operation(id).map(|info| info.phase.to_owned());
                Ok(step(phase.unwrap_or_default(), false))
            }
            _ => Err(StatusCode::NOT_FOUND),
        }
    }
}

/// Streams the steps of an order, until its end.
async fn progress(
    State(app): State<App>,
    Path(reference): Path<String>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, StatusCode> {
    let steps = app.steps.subscribe();
    let first = app.step(&reference)?;
    let state = (!first.is_end).then_some((steps, reference));
    let rest = stream::unfold(state, |state| async {
        let (mut steps, reference) = state?;
        loop {
            match steps.recv().await {
                Ok(step) if step.reference == reference => {
                    let state = (!step.is_end).then_some((steps, reference));
                    return Some((step, state));
                }
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    });
    let all = stream::iter([first]).chain(rest);
    let events = all.map(|step| Ok(Event::default().data(step.phase)));
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

/// What runs, what waits, and on what.
async fn operations(State(app): State<App>) -> String {
    app.runtime.operations().to_string()
}

/// Tries the failed orders again, after a release that fixes the cause.
async fn retry(State(app): State<App>) -> Json<Value> {
    let retried = app.runtime.quarantine().retry_failed::<Order>();
    Json(json!({ "retried": retried.retried.len(), "refused": retried.refused.len() }))
}

/// An error as an answer. The client may repeat its request.
#[derive(Debug)]
struct Failed(BoxError);

impl<E: Into<BoxError>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        (StatusCode::SERVICE_UNAVAILABLE, self.0.to_string()).into_response()
    }
}
