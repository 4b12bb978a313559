//! The service over HTTP.

use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use fom_durable::{Lookup, NotSent, NotSentReason, QuarantineKind, prelude::*};
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::{
    order::{FulfilKind, News, Order},
    progress::{Step, progress},
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

/// The routes of the service.
pub fn routes(app: App) -> Router {
    Router::new()
        .route("/orders", post(order))
        .route("/orders/{reference}", get(show).delete(cancel))
        .route("/orders/{reference}/progress", get(progress))
        .route("/webhooks/payment", post(payment))
        .route("/operations", get(operations))
        .route("/failed", get(failed))
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
    match app.runtime.outcome::<Order>(&*reference) {
        Lookup::Ended {
            outcome: Ok(ended), ..
        } => Ok(Json(json!(ended.end))),
        Lookup::Ended {
            outcome: Err(failure),
            ..
        } if !is_cancel(&failure) => Ok(Json(json!({ "failed": failure.to_string() }))),
        Lookup::Ended { .. } => Ok(Json(json!({ "end": "Cancelled", "why": "given up early" }))),
        Lookup::Unknown => Err(StatusCode::NOT_FOUND),
        // The service ends: after its next start, it knows.
        Lookup::Interrupted => Err(StatusCode::SERVICE_UNAVAILABLE),
        _ => Ok(Json(json!({ "phase": app.phase(&reference) }))),
    }
}

/// Returns whether an order was cancelled before it began. Such an order has no end phase.
pub(crate) fn is_cancel(failure: &Failure<Order>) -> bool {
    failure.cause.to_string() == Cause::<BoxError>::Cancelled.to_string()
}

/// Gives an order up, unless its parcel is on its way. The answer "accepted" leaves when the way back is on disk. A client
/// that gets no answer asks again.
async fn cancel(State(app): State<App>, Path(reference): Path<String>) -> StatusCode {
    let Some(order) = app.runtime.find::<Order>(&*reference) else {
        return app.ended(&reference);
    };
    let back = order.reached([FulfilKind::Refund, FulfilKind::Cancelled]);
    order.cancel();
    match back.await {
        Reached::Phase(_) => StatusCode::ACCEPTED,
        // It has not begun, or has just ended.
        Reached::Ended => app.ended(&reference),
        Reached::Unreachable => StatusCode::CONFLICT,
    }
}

/// The provider's answer. It is on disk when the provider hears that it may forget it. A repeated answer changes nothing.
async fn payment(
    State(app): State<App>,
    Json(webhook): Json<Webhook>,
) -> Result<StatusCode, Failed> {
    let news = match webhook.paid {
        true => News::Paid,
        false => News::Declined,
    };
    let (reference, id) = (webhook.reference, webhook.id);
    match app.runtime.send_durably::<Order>(reference, news, id).await {
        Ok(_) => Ok(StatusCode::ACCEPTED),
        // The order has ended, or there was none.
        Err(NotSent {
            reason: NotSentReason::NoReceiver { .. },
            ..
        }) => Ok(StatusCode::NO_CONTENT),
        Err(error) => Err(error.to_string().into()),
    }
}

impl App {
    /// Returns the phase that an order is in, or its end.
    pub(crate) fn phase(&self, reference: &str) -> Option<String> {
        match self.runtime.outcome::<Order>(reference) {
            Lookup::InFlight(id) => {
                let running = self.runtime.operation(id);
                // Without one, it has ended since.
                running.map_or_else(|| self.end(reference), |info| Some(info.phase.to_owned()))
            }
            Lookup::Quarantined(_) | Lookup::Interrupted => Some("on hold".to_owned()),
            _ => self.end(reference),
        }
    }

    fn end(&self, reference: &str) -> Option<String> {
        match self.runtime.outcome::<Order>(reference) {
            Lookup::Ended {
                outcome: Ok(ended), ..
            } => Some(format!("{:?}", ended.kind())),
            Lookup::Ended {
                outcome: Err(failure),
                ..
            } if !is_cancel(&failure) => Some("failed".to_owned()),
            Lookup::Ended { .. } => Some("Cancelled".to_owned()),
            _ => None,
        }
    }

    /// The answer to a cancel of an order that does not run.
    fn ended(&self, reference: &str) -> StatusCode {
        match self.phase(reference).as_deref() {
            Some("Cancelled") => StatusCode::ACCEPTED,
            // It failed, and runs again when the operator says so.
            Some("on hold") => StatusCode::SERVICE_UNAVAILABLE,
            Some(_) => StatusCode::CONFLICT,
            None => StatusCode::NOT_FOUND,
        }
    }
}

/// What runs, what waits, and on what.
async fn operations(State(app): State<App>) -> String {
    app.runtime.operations().to_string()
}

/// The failed orders: where each of them failed, and why.
async fn failed(State(app): State<App>) -> Response {
    let failed = app.runtime.quarantine().list_of(QuarantineKind::Failed);
    Json(failed).into_response()
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
