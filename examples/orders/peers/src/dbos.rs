//! An order on DBOS, with its store on Postgres.

use std::{path::Path, sync::Arc, time::Duration};

use dbos::{Config, DBOS, SendOptions, StartOptions, StepOptions, WorkflowRef};
use fom_runtime::prelude::BoxError;
use serde::{Deserialize, Serialize};

use crate::world::{News, Order, Peer, Webhook, World};

#[derive(Debug, Serialize, Deserialize)]
struct Failed(String);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

fn retry() -> StepOptions<Failed> {
    StepOptions {
        max_attempts: 9,
        interval: Duration::from_millis(20),
        max_interval: Duration::from_secs(1),
        ..StepOptions::default()
    }
}

/// An effect, as a step with retries.
async fn effect(
    name: &str,
    world: &World,
    order: &Order,
    effect: fn(&World, &Order) -> Result<(), BoxError>,
) -> dbos::Result<(), Failed> {
    let attempt = || async {
        effect(world, order).map_err(|e| dbos::Error::Application(Failed(e.to_string())))
    };
    dbos::step_with(name, retry(), attempt).await
}

/// The workflow. After a crash it runs again from its begin, so it must do the same each time.
async fn fulfil(world: Arc<World>, order: Order) -> dbos::Result<String, Failed> {
    effect("reserve", &world, &order, World::reserve).await?;
    let news = match effect("charge", &world, &order, World::charge).await {
        Ok(()) => {
            let news = dbos::recv(Some("news"), Duration::from_secs(600)).await?;
            news.unwrap_or(News::GivenUp)
        }
        Err(dbos::Error::Application(_)) => News::GivenUp,
        Err(other) => return Err(other),
    };
    if news == News::Paid {
        effect("ship", &world, &order, World::ship).await?;
        return Ok("shipped".into());
    }
    if news == News::GivenUp {
        effect("refund", &world, &order, World::refund).await?;
    }
    effect("release", &world, &order, World::release).await?;
    Ok("cancelled".into())
}

#[derive(Clone)]
pub struct Dbos {
    dbos: DBOS,
    fulfil: WorkflowRef<Order, String, Failed>,
}

impl Peer for Dbos {
    async fn open(world: Arc<World>, directory: &Path) -> Result<Self, BoxError> {
        // A database for each directory.
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        let url = format!("{}/{name}", std::env::var("POSTGRES")?);
        let mut config = Config::new("orders", url);
        config.app_version = Some("1".into());
        let dbos = DBOS::new(config);
        let fulfil = dbos.register_workflow("Fulfil", move |order| fulfil(world.clone(), order))?;
        dbos.launch().await?;
        Ok(Self { dbos, fulfil })
    }

    async fn order(&self, order: Order) -> Result<(), BoxError> {
        let reference = order.reference.clone();
        let options = StartOptions {
            workflow_id: Some(&reference),
            ..StartOptions::default()
        };
        self.fulfil.start_with(order, options).await?;
        Ok(())
    }

    async fn news(&self, webhook: Webhook) -> Result<(), BoxError> {
        let options = SendOptions {
            topic: Some("news"),
            idempotency_key: Some(&webhook.id),
            ..SendOptions::default()
        };
        let news = self
            .dbos
            .send_with(&webhook.reference, &webhook.news, options);
        Ok(news.await?)
    }
}
