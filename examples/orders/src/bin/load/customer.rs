//! The customers: they order, give some orders up, and see how each of them ends.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fom_runtime::prelude::BoxError;
use orders::order::Order;
use reqwest::{Client, StatusCode};
use serde_json::Value;
use tokio::time::sleep;

/// A client: repeats each request until the service answers. If there are several nodes, it asks the next one then.
#[derive(Clone)]
pub(crate) struct Web {
    pub(crate) client: Client,
    pub(crate) urls: Arc<[String]>,
    /// The node that the first request goes to.
    pub(crate) first: usize,
}

impl Web {
    /// The nodes, again and again.
    fn nodes(&self) -> impl Iterator<Item = &str> + use<'_> {
        let nodes = self.urls.iter().cycle().skip(self.first);
        nodes.map(String::as_str)
    }

    async fn order(&self, order: &Order) {
        for node in self.nodes() {
            let sent = self
                .client
                .post(format!("{node}/orders"))
                .json(order)
                .send()
                .await;
            if sent.is_ok_and(|answer| answer.status() == StatusCode::ACCEPTED) {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Gives an order up, and returns the answer of the service.
    async fn cancel(&self, reference: &str) -> StatusCode {
        for node in self.nodes() {
            let url = format!("{node}/orders/{reference}");
            if let Ok(answer) = self.client.delete(&url).send().await
                && answer.status() != StatusCode::SERVICE_UNAVAILABLE
            {
                return answer.status();
            }
            sleep(Duration::from_millis(10)).await;
        }
        unreachable!("there are nodes")
    }

    /// Reads the progress of an order until it is in this phase, or has ended. Opens the stream again after a kill.
    async fn progress(&self, reference: &str, phase: &str) {
        let mut seen = String::new();
        for node in self.nodes() {
            let url = format!("{node}/orders/{reference}/progress");
            if let Ok(mut answer) = self.client.get(&url).send().await {
                while let Ok(chunk) = answer.chunk().await {
                    let Some(chunk) = chunk else { return };
                    seen.push_str(&String::from_utf8_lossy(&chunk));
                    if seen.contains(phase) {
                        return;
                    }
                }
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits for the end of an order, and returns its name.
    async fn end(&self, reference: &str) -> String {
        for node in self.nodes() {
            let url = format!("{node}/orders/{reference}");
            if let Ok(answer) = self.client.get(&url).send().await
                && let Ok(order) = answer.json::<Value>().await
                && let Some(end) = order["end"].as_str()
            {
                return end.to_owned();
            }
            sleep(Duration::from_millis(20)).await;
        }
        unreachable!("there are nodes")
    }
}

fn order(customer: usize, number: usize) -> Order {
    Order {
        reference: format!("{customer}-{number}"),
        customer: format!("customer {customer}"),
        item: "tea".into(),
        pieces: 1 + (number % 3) as u32,
        cents: 250,
    }
}

/// What a customer saw of an order.
pub(crate) struct Seen {
    pub(crate) order: Order,
    /// The answer to the cancel, if the customer gave the order up.
    pub(crate) cancel: Option<StatusCode>,
    pub(crate) end: String,
}

/// The phases in which customers give orders up.
const GIVEN_UP_IN: [&str; 4] = ["Reserve", "Charge", "AwaitPayment", "Ship"];

/// What one customer saw: each order with its end.
pub(crate) async fn shop(
    web: Web,
    customer: usize,
    orders: usize,
    accepted: Arc<AtomicUsize>,
) -> Result<Vec<Seen>, BoxError> {
    let mut cancels = HashMap::new();
    let all: Vec<_> = (0..orders).map(|number| order(customer, number)).collect();
    for (number, order) in all.iter().enumerate() {
        web.order(order).await;
        accepted.fetch_add(1, Ordering::Relaxed);
        let (web, reference) = (web.clone(), order.reference.clone());
        match number % 7 {
            3 => {
                _ = cancels.insert(
                    number,
                    tokio::spawn(async move { web.cancel(&reference).await }),
                )
            }
            5 | 6 => {
                let phase = GIVEN_UP_IN[(customer + number) % GIVEN_UP_IN.len()];
                let cancel = async move {
                    web.progress(&reference, phase).await;
                    web.cancel(&reference).await
                };
                cancels.insert(number, tokio::spawn(cancel));
            }
            _ => {}
        }
    }
    let mut seen = Vec::new();
    for (number, order) in all.into_iter().enumerate() {
        let cancel = match cancels.remove(&number) {
            Some(cancel) => Some(cancel.await?),
            None => None,
        };
        let end = web.end(&order.reference).await;
        seen.push(Seen { order, cancel, end });
    }
    Ok(seen)
}
