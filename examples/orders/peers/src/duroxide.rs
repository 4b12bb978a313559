//! An order on duroxide, with its store on SQLite.

use std::{path::Path, sync::Arc, time::Duration};

use duroxide::{
    ActivityContext, BackoffStrategy, Client, Either2, OrchestrationContext, OrchestrationRegistry,
    RetryPolicy,
    providers::sqlite::SqliteProvider,
    runtime::{Runtime, RuntimeOptions, registry::ActivityRegistry},
};
use fom_runtime::prelude::BoxError;

use crate::world::{News, Order, Peer, Webhook, World};

fn retry() -> RetryPolicy {
    RetryPolicy::new(9).with_backoff(BackoffStrategy::Exponential {
        base: Duration::from_millis(20),
        multiplier: 2.0,
        max: Duration::from_secs(1),
    })
}

/// The orchestration. It runs again from its begin after each step, so it must do the same each time.
async fn fulfil(cx: OrchestrationContext, order: Order) -> Result<String, String> {
    cx.schedule_activity_typed::<_, ()>("reserve", &order)
        .await?;
    let charge = cx.schedule_activity_with_retry_typed::<_, ()>("charge", &order, retry());
    let news = match charge.await {
        Ok(()) => {
            let news = cx.dequeue_event("news");
            let late = cx.schedule_timer(Duration::from_secs(600));
            match cx.select2(news, late).await {
                Either2::First(news) => serde_json::from_str(&news).map_err(|e| e.to_string())?,
                Either2::Second(()) => News::GivenUp,
            }
        }
        Err(_) => News::GivenUp,
    };
    if news == News::Paid {
        let ship = cx.schedule_activity_with_retry_typed::<_, ()>("ship", &order, retry());
        ship.await?;
        return Ok("shipped".into());
    }
    if news == News::GivenUp {
        let refund = cx.schedule_activity_with_retry_typed::<_, ()>("refund", &order, retry());
        refund.await?;
    }
    let release = cx.schedule_activity_with_retry_typed::<_, ()>("release", &order, retry());
    release.await?;
    Ok("cancelled".into())
}

/// An effect, as an activity.
fn activity(
    world: &Arc<World>,
    effect: fn(&World, &Order) -> Result<(), BoxError>,
) -> impl Fn(ActivityContext, Order) -> std::future::Ready<Result<(), String>> + Send + Sync + 'static
{
    let world = Arc::clone(world);
    move |_, order| std::future::ready(effect(&world, &order).map_err(|e| e.to_string()))
}

#[derive(Clone)]
pub struct Duroxide<const TUNED: bool> {
    client: Arc<Client>,
    _runtime: Arc<Runtime>,
}

impl<const TUNED: bool> Peer for Duroxide<TUNED> {
    async fn open(world: Arc<World>, directory: &Path) -> Result<Self, BoxError> {
        let url = format!(
            "sqlite:{}?mode=rwc",
            directory.join("store.sqlite").display()
        );
        let store = Arc::new(SqliteProvider::new(&url, None).await?);
        let activities = ActivityRegistry::builder()
            .register_typed("reserve", activity(&world, World::reserve))
            .register_typed("charge", activity(&world, World::charge))
            .register_typed("ship", activity(&world, World::ship))
            .register_typed("refund", activity(&world, World::refund))
            .register_typed("release", activity(&world, World::release))
            .build();
        let orchestrations = OrchestrationRegistry::builder()
            .register_typed("Fulfil", fulfil)
            .build();
        let mut options = RuntimeOptions::default();
        if TUNED {
            options.dispatcher_min_poll_interval = Duration::from_millis(5);
            options.worker_lock_timeout = Duration::from_secs(6);
        }
        let runtime =
            Runtime::start_with_options(store.clone(), activities, orchestrations, options).await;
        Ok(Self {
            client: Arc::new(Client::new(store)),
            _runtime: runtime,
        })
    }

    async fn order(&self, order: Order) -> Result<(), BoxError> {
        let reference = order.reference.clone();
        let start = self
            .client
            .start_orchestration_typed(reference, "Fulfil", order);
        Ok(start.await?)
    }

    async fn news(&self, webhook: Webhook) -> Result<(), BoxError> {
        // A repeated answer stays in the queue of the order, unread.
        let news = serde_json::to_string(&webhook.news)?;
        Ok(self
            .client
            .enqueue_event(webhook.reference, "news", news)
            .await?)
    }
}
