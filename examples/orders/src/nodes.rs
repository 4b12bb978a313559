//! The service on several machines: any node takes any request, and the node that owns the customer's slot carries it out.
//!
//! The name of an order begins with its customer: order `3-17` is of customer `3`. So each node knows the series of an order, and
//! with it the slot.

use std::{convert::Infallible, path::Path, time::Duration};

use axum::{
    Json, Router,
    extract::{self, State},
    http::StatusCode,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
    routing::{get, post},
};
use fom_cluster::{Cluster, ClusterError, Found, Place, Tcp};
use fom_durable::prelude::*;
use fom_patterns::limit::Limits;
use fom_postgres::PostgresEngine;
use futures::{Stream, stream};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    order::{FulfilKind, News, Order, Site},
    provider::{Provider, Webhook},
    shop::Shop,
    web::is_cancel,
};

/// How long a client may repeat its request, and ask for its order.
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The time between two looks at an order that a client follows.
const LOOK: Duration = Duration::from_millis(50);
/// The looks at an order that a client gives up, before the client must ask again.
const LOOKS: usize = 100;

/// What a node is told.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Where PostgreSQL is.
    pub database: String,
    /// Where the other nodes reach it.
    pub cluster: String,
    /// What all nodes know.
    pub secret: String,
}

impl Node {
    /// Joins the cluster. The orders of its slots go on at once. `directory` has the database of the shop, for all nodes.
    ///
    /// # Errors
    ///
    /// Fails if the database cannot be used, and if the cluster cannot be joined.
    pub async fn join(
        self,
        directory: &Path,
        provider: Provider,
        webhook: String,
    ) -> Result<Cluster, BoxError> {
        std::fs::create_dir_all(directory)?;
        let shop = Shop::open(&directory.join("shop.sqlite"))?;
        shop.stock("tea", 1_000_000)?;
        // All slots of the node together ask for so many charges at once.
        let limits = Limits::new();
        limits.set("charges", 8);
        // The server of a try has no second copy. Real orders need one: leave this out then.
        let engine = PostgresEngine::builder(self.database, "orders").allow_one_copy();
        let cluster = Cluster::builder(engine.build()?, self.name)
            .network(Tcp::bind(self.cluster)?.secret(self.secret))
            .slots(16)
            .operation::<Order>()
            // Each slot has a runtime of its own.
            .runtime(move |builder| {
                builder
                    .resource(shop.clone())
                    .resource(provider.clone())
                    .resource(Site {
                        webhook: webhook.clone(),
                    })
                    .resource(limits.clone())
                    .remember(100_000, WEEK)
            })
            .join()
            .await?;
        Ok(cluster)
    }
}

/// Returns the customer of an order. The orders of a customer are a series, in one slot.
fn customer(reference: &str) -> &str {
    let parts = reference.split_once('-');
    parts.map_or(reference, |(customer, _)| customer)
}

/// Where an order is in the cluster.
fn place(reference: &str) -> Place {
    let place = Place::key(reference).with_once(reference);
    place.serial(customer(reference))
}

/// The routes of a node.
pub fn routes(cluster: Cluster) -> Router {
    Router::new()
        .route("/orders", post(order))
        .route("/orders/{reference}", get(show).delete(cancel))
        .route("/orders/{reference}/progress", get(progress))
        .route("/webhooks/payment", post(payment))
        .route("/cluster", get(status))
        .with_state(cluster)
}

/// Takes an order in. The answer "accepted" leaves when the order is in the database. A client that gets no answer asks again,
/// any node, and the order runs once.
async fn order(
    State(cluster): State<Cluster>,
    Json(order): Json<Order>,
) -> Result<Response, Failed> {
    let reference = order.reference.clone();
    let order = cluster.submit(order).key(&*reference).once(&*reference);
    let started = order.serial(customer(&reference)).start().await;
    drop(started.map_err(|error| error.reason)?);
    let place = format!("/orders/{reference}");
    Ok((StatusCode::ACCEPTED, [("location", place)]).into_response())
}

/// Tells where an order is: its phase, or its end.
async fn show(
    State(cluster): State<Cluster>,
    extract::Path(reference): extract::Path<String>,
) -> Result<Response, Failed> {
    let told = match stage(&cluster, &reference).await? {
        Some(Stage::Phase(phase)) => json!({ "phase": phase }),
        Some(Stage::Ended { told, .. }) => told,
        Some(Stage::OnHold) => json!({ "phase": "on hold" }),
        None => return Ok(StatusCode::NOT_FOUND.into_response()),
    };
    Ok(Json::<Value>(told).into_response())
}

/// Where an order is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// It is in this phase.
    Phase(String),
    /// It has ended.
    Ended {
        /// The name of the end.
        end: String,
        /// The end with its data.
        told: Value,
    },
    OnHold,
}

/// Returns where an order is, or `None` if there is no such order.
async fn stage(cluster: &Cluster, reference: &str) -> Result<Option<Stage>, ClusterError> {
    let place = place(reference);
    let (end, told) = match cluster.find::<Order>(place.clone()).await? {
        Found::InFlight { phase } => return Ok(Some(Stage::Phase(phase))),
        Found::Ended => match cluster.outcome::<Order>(place).await? {
            Ok(ended) => (format!("{:?}", ended.kind()), json!(ended.end)),
            Err(failure) if is_cancel(&failure) => {
                let told = json!({ "end": "Cancelled", "why": "given up early" });
                ("Cancelled".to_owned(), told)
            }
            Err(failure) => (
                "failed".to_owned(),
                json!({ "failed": failure.to_string() }),
            ),
        },
        Found::Quarantined => return Ok(Some(Stage::OnHold)),
        _ => return Ok(None),
    };
    Ok(Some(Stage::Ended { end, told }))
}

/// Gives an order up, unless its parcel is on its way. The answer "accepted" leaves when the way back is in the database. A cancel
/// itself is not: the owner may be lost before the order takes the way back. So it is repeated until then.
async fn cancel(
    State(cluster): State<Cluster>,
    extract::Path(reference): extract::Path<String>,
) -> Result<StatusCode, Failed> {
    let way_back = [FulfilKind::Refund, FulfilKind::Release].map(|kind| format!("{kind:?}"));
    for _ in 0..LOOKS {
        match stage(&cluster, &reference).await? {
            Some(Stage::Phase(phase)) if way_back.contains(&phase) => {
                return Ok(StatusCode::ACCEPTED);
            }
            Some(Stage::Phase(_)) => match cluster.cancel::<Order>(place(&reference)).await {
                // It has ended meanwhile.
                Ok(_) | Err(ClusterError::Unknown(_)) => sleep(LOOK).await,
                Err(error) => return Err(error.into()),
            },
            Some(Stage::Ended { end, .. }) if end == "Cancelled" => {
                return Ok(StatusCode::ACCEPTED);
            }
            Some(Stage::Ended { .. }) => return Ok(StatusCode::CONFLICT),
            // It failed, and runs again when the operator says so.
            Some(Stage::OnHold) => break,
            None => return Ok(StatusCode::NOT_FOUND),
        }
    }
    Ok(StatusCode::SERVICE_UNAVAILABLE)
}

/// Streams the phases of an order. The last one is its end. The stream goes on while the order moves to another node.
async fn progress(
    State(cluster): State<Cluster>,
    extract::Path(reference): extract::Path<String>,
) -> Result<Response, Failed> {
    let Some(first) = stage(&cluster, &reference).await? else {
        return Ok(StatusCode::NOT_FOUND.into_response());
    };
    let follow = Follow {
        cluster,
        reference,
        seen: None,
        next: Some(first),
    };
    let events = Sse::new(follow.events());
    Ok(events.keep_alive(KeepAlive::default()).into_response())
}

/// An order that a client follows.
struct Follow {
    cluster: Cluster,
    reference: String,
    /// What the client saw last.
    seen: Option<Stage>,
    /// What it sees next.
    next: Option<Stage>,
}

impl Follow {
    fn events(self) -> impl Stream<Item = Result<Event, Infallible>> {
        stream::unfold(self, async |mut follow| {
            let text = match follow.next().await? {
                Stage::Phase(name) | Stage::Ended { end: name, .. } => name,
                Stage::OnHold => "on hold".to_owned(),
            };
            Some((Ok(Event::default().data(text)), follow))
        })
    }

    /// Returns where the order is when it has gone on, or `None` after its end.
    async fn next(&mut self) -> Option<Stage> {
        while self.next.is_none() {
            if let Some(Stage::Ended { .. }) = self.seen {
                return None;
            }
            sleep(LOOK).await;
            // While the order has no owner, there is no answer.
            if let Ok(stage) = stage(&self.cluster, &self.reference).await
                && stage != self.seen
            {
                self.next = Some(stage?);
            }
        }
        self.seen.clone_from(&self.next);
        self.next.take()
    }
}

/// The provider's answer. It is in the database when the provider hears that it may forget it. A repeated answer changes nothing.
async fn payment(
    State(cluster): State<Cluster>,
    Json(webhook): Json<Webhook>,
) -> Result<StatusCode, Failed> {
    let news = match webhook.paid {
        true => News::Paid,
        false => News::Declined,
    };
    let order = place(&webhook.reference);
    match cluster.send::<Order>(order, news, webhook.id).await {
        Ok(_) => Ok(StatusCode::ACCEPTED),
        // The order has ended, or there was none.
        Err(ClusterError::Unknown(_)) => Ok(StatusCode::NO_CONTENT),
        Err(error) => Err(error.into()),
    }
}

/// The nodes, their slots, and what is wrong.
async fn status(State(cluster): State<Cluster>) -> Result<String, Failed> {
    Ok(cluster.operator().report().await?.to_string())
}

/// An error as an answer. The client may repeat its request.
#[derive(Debug)]
struct Failed(ClusterError);

impl From<ClusterError> for Failed {
    fn from(error: ClusterError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        (StatusCode::SERVICE_UNAVAILABLE, self.0.to_string()).into_response()
    }
}
