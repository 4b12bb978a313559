//! The service on several machines: any node takes any request, and the node that owns the customer's slot carries it out.
//!
//! The name of an order begins with its customer: order `3-17` is of customer `3`. So each node knows the series of an order, and
//! with it the slot.

use std::{path::Path, time::Duration};

use axum::{
    Json, Router,
    extract::{self, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use fom_cluster::{Cluster, ClusterError, Found, Place, Tcp};
use fom_durable::prelude::*;
use fom_patterns::limit::Limits;
use fom_postgres::PostgresEngine;
use serde_json::{Value, json};

use crate::{
    order::{News, Order, Site},
    provider::{Provider, Webhook},
    shop::Shop,
};

/// How long a client may repeat its request, and ask for its order.
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

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
        .route("/orders/{reference}", get(show))
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
    let place = place(&reference);
    let told = match cluster.find::<Order>(place.clone()).await? {
        Found::InFlight { phase } => json!({ "phase": phase }),
        Found::Ended => match cluster.outcome::<Order>(place).await? {
            Ok(ended) => json!(ended.end),
            Err(failure) => json!({ "failed": failure.to_string() }),
        },
        Found::Quarantined => json!({ "phase": "on hold" }),
        _ => return Ok(StatusCode::NOT_FOUND.into_response()),
    };
    Ok(Json::<Value>(told).into_response())
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
