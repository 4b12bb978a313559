//! A payment provider to test against: one request in five fails, one answer in five is lost, and half of the webhooks
//! come twice. It charges once for each idempotency key.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::{get, post},
};
use fom_runtime::prelude::BoxError;
use orders::provider::{Charge, Webhook};
use reqwest::Client;
use serde_json::{Value, json};
use tokio::net::TcpListener;

#[derive(Clone, Default)]
struct Provider(Arc<Mutex<Books>>);

#[derive(Default)]
struct Books {
    /// The orders, by the idempotency key of the charge.
    charges: HashMap<String, Charged>,
    /// The refunded orders, and how often each was refunded.
    refunds: HashMap<String, u32>,
    /// The keys of the refunds.
    refund_keys: HashMap<String, ()>,
    requests: u64,
}

struct Charged {
    reference: String,
    cents: u32,
    paid: bool,
}

enum Luck {
    Good,
    Refused,
    AnswerLost,
}

impl Books {
    fn luck(&mut self) -> Luck {
        self.requests += 1;
        match (self.requests * 7) % 5 {
            0 => Luck::Refused,
            1 => Luck::AnswerLost,
            _ => Luck::Good,
        }
    }
}

fn key(headers: &HeaderMap) -> Result<String, StatusCode> {
    let key = headers
        .get("idempotency-key")
        .and_then(|key| key.to_str().ok());
    key.map(str::to_owned).ok_or(StatusCode::BAD_REQUEST)
}

async fn charge(
    State(provider): State<Provider>,
    headers: HeaderMap,
    Json(charge): Json<Charge>,
) -> StatusCode {
    let Ok(key) = key(&headers) else {
        return StatusCode::BAD_REQUEST;
    };
    let mut books = provider.0.lock().unwrap();
    let luck = books.luck();
    if matches!(luck, Luck::Refused) {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    let number = books.requests;
    // The charge of a cancelled order may arrive after the refund.
    if books.refunds.contains_key(&charge.reference) {
        return StatusCode::CONFLICT;
    }
    if let Entry::Vacant(new) = books.charges.entry(key) {
        // One customer in ten has no money.
        let paid = !charge.reference.ends_with('9');
        let Charge {
            reference,
            cents,
            webhook,
        } = charge;
        let answer = Webhook {
            id: new.key().clone(),
            reference: reference.clone(),
            paid,
        };
        tokio::spawn(call_back(webhook, answer, 1 + number % 2));
        new.insert(Charged {
            reference,
            cents,
            paid,
        });
    }
    match luck {
        Luck::AnswerLost => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::OK,
    }
}

/// Calls until the shop says that it has the answer, and then perhaps once more.
async fn call_back(webhook: String, answer: Webhook, times: u64) {
    let client = Client::new();
    let mut done = 0;
    while done < times {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let sent = client.post(&webhook).json(&answer).send().await;
        if sent.is_ok_and(|sent| sent.status().is_success()) {
            done += 1;
        }
    }
}

async fn refund(
    State(provider): State<Provider>,
    headers: HeaderMap,
    Json(reference): Json<String>,
) -> StatusCode {
    let Ok(key) = key(&headers) else {
        return StatusCode::BAD_REQUEST;
    };
    let mut books = provider.0.lock().unwrap();
    let luck = books.luck();
    if matches!(luck, Luck::Refused) {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    if books.refund_keys.insert(key, ()).is_none() {
        *books.refunds.entry(reference).or_default() += 1;
    }
    match luck {
        Luck::AnswerLost => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::OK,
    }
}

async fn books(State(provider): State<Provider>) -> Json<Value> {
    let books = provider.0.lock().unwrap();
    let charges = books.charges.values().map(|charged| {
        json!({ "reference": charged.reference, "cents": charged.cents, "paid": charged.paid })
    });
    Json(
        json!({ "charges": charges.collect::<Vec<_>>(), "refunds": books.refunds, "requests": books.requests }),
    )
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:7801".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("provider on {}", listener.local_addr()?);
    let routes = Router::new()
        .route("/charges", post(charge))
        .route("/refunds", post(refund))
        .route("/books", get(books));
    axum::serve(listener, routes.with_state(Provider::default())).await?;
    Ok(())
}
