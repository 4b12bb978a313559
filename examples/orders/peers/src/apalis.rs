//! An order on apalis, with its store on SQLite. A job does not wait for an event, so an order is three jobs: one takes it
//! in, one settles it, and one settles it if nothing else has after ten minutes. An idempotency key lets only one of the last
//! two run.

use std::{path::Path, sync::Arc, time::Duration};

use apalis::{
    layers::retry::{
        HasherRng, RetryPolicy,
        backoff::{ExponentialBackoffMaker, MakeBackoff},
    },
    prelude::*,
};
use apalis_sqlite::{Config, SqliteStorage};
use fom_runtime::prelude::BoxError;
use futures::StreamExt;
use serde::{Deserialize, Serialize};

use crate::world::{News, Order, Peer, Webhook, World};

const RETRIES: usize = 8;

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Job {
    TakeIn(Order),
    Settle(Order, News),
    Expire(Order),
}

impl Job {
    /// The job as a task, of which each order has one.
    fn once(self) -> TaskBuilder<Job> {
        let key = match &self {
            Job::TakeIn(order) => format!("take in {}", order.reference),
            Job::Settle(order, _) => format!("settle {}", order.reference),
            Job::Expire(order) => format!("expire {}", order.reference),
        };
        TaskBuilder::new(self).idempotency_key(key)
    }
}

async fn run(
    job: Job,
    attempt: Attempt,
    world: Data<Arc<World>>,
    jobs: Data<SqliteStorage<Job>>,
) -> Result<(), BoxDynError> {
    let mut jobs = (*jobs).clone();
    match job {
        Job::TakeIn(order) => {
            world.reserve(&order)?;
            match world.charge(&order) {
                Ok(()) => {
                    let late = Duration::from_secs(600);
                    let expire = Job::Expire(order).once().run_after(late);
                    jobs.push_task(expire.build()).await?;
                }
                Err(_) if attempt.current() > RETRIES => {
                    let settle = Job::Settle(order, News::GivenUp).once();
                    jobs.push_task(settle.build()).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Job::Expire(order) => {
            let settle = Job::Settle(order, News::GivenUp).once();
            jobs.push_task(settle.build()).await?;
        }
        Job::Settle(order, News::Paid) => world.ship(&order)?,
        Job::Settle(order, news) => {
            if news == News::GivenUp {
                world.refund(&order)?;
            }
            world.release(&order)?;
        }
    }
    Ok(())
}

#[derive(Clone)]
pub struct Apalis<const TUNED: bool>(SqliteStorage<Job>);

impl<const TUNED: bool> Peer for Apalis<TUNED> {
    async fn open(world: Arc<World>, directory: &Path) -> Result<Self, BoxError> {
        let url = format!(
            "sqlite:{}?mode=rwc",
            directory.join("store.sqlite").display()
        );
        let (pool, listener) = SqliteStorage::connect_with_callback(&url)?;
        SqliteStorage::setup(&pool).await?;
        let mut config = Config::default().queue("orders");
        if TUNED {
            config = config
                .heartbeat_interval(Duration::from_secs(1))
                .batch_size(64);
        }
        let strategy = Strategy::new()
            .stream(listener.ready_chunks(config.batch_size))
            .interval(Duration::from_millis(if TUNED { 20 } else { 500 }));
        let jobs = SqliteStorage::new(&pool).with_config(config);
        let pause = (Duration::from_millis(20), Duration::from_secs(1));
        let pause = ExponentialBackoffMaker::new(pause.0, pause.1, 0.0, HasherRng::default())?;
        let worker = WorkerBuilder::new(format!("worker of {}", std::process::id()))
            .backend(jobs.clone().poll_with_strategy(strategy))
            .retry(RetryPolicy::retries(RETRIES).with_backoff(pause.clone().make_backoff()))
            .concurrency(64)
            .data(world)
            .data(jobs.clone())
            .build(run);
        tokio::spawn(async move { worker.run().await.expect("the worker runs") });
        Ok(Self(jobs))
    }

    async fn order(&self, order: Order) -> Result<(), BoxError> {
        let order = Job::TakeIn(order).once().build();
        Ok(self.0.clone().push_task(order).await?)
    }

    async fn news(&self, webhook: Webhook) -> Result<(), BoxError> {
        let Webhook {
            reference, news, ..
        } = webhook;
        let settle = Job::Settle(Order { reference }, news).once().build();
        Ok(self.0.clone().push_task(settle).await?)
    }
}
