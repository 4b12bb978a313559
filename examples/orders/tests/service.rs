//! The service in this process, with a provider that the test holds up.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Json, Router, extract::State, routing::post};
use fom_patterns::limit::LimitsExt;
use fom_runtime::{FomRef, prelude::Reached};
use orders::{
    order::{FulfilKind, Order},
    provider::{Charge, Provider, Webhook},
    serve::open,
    shop::Shop,
    web::{App, routes},
};
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
};

/// A provider that answers while it is open.
#[derive(Clone)]
struct Bank {
    is_open: watch::Sender<bool>,
    /// The requests that have arrived: `charge` or `refund`, and the order.
    arrived: mpsc::UnboundedSender<(&'static str, String)>,
    /// The orders that were paid back.
    refunds: Arc<Mutex<Vec<String>>>,
}

impl Bank {
    async fn take(&self, what: &'static str, reference: &str) {
        let _ = self.arrived.send((what, reference.to_owned()));
        let _ = self.is_open.subscribe().wait_for(|is_open| *is_open).await;
    }
}

async fn charge(State(bank): State<Bank>, Json(charge): Json<Charge>) {
    bank.take("charge", &charge.reference).await;
}

async fn refund(State(bank): State<Bank>, Json(reference): Json<String>) {
    bank.take("refund", &reference).await;
    bank.refunds.lock().unwrap().push(reference);
}

struct Service {
    app: App,
    bank: Bank,
    arrived: mpsc::UnboundedReceiver<(&'static str, String)>,
    client: Client,
    url: String,
    directory: PathBuf,
}

impl Service {
    async fn start(name: &str) -> Self {
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&directory);
        let (arrive, arrived) = mpsc::unbounded_channel();
        let bank = Bank {
            is_open: watch::Sender::new(true),
            arrived: arrive,
            refunds: Arc::default(),
        };
        let doors = Router::new()
            .route("/charges", post(charge))
            .route("/refunds", post(refund));
        let provider = Provider::new(serve(doors.with_state(bank.clone())).await).unwrap();
        // The test makes the calls of the provider.
        let app = open(&directory, provider, String::new()).unwrap();
        Self {
            url: serve(routes(app.clone())).await,
            client: Client::new(),
            app,
            bank,
            arrived,
            directory,
        }
    }

    async fn post(&self, path: &str, body: &Value) -> Response {
        let request = self.client.post(format!("{}{path}", self.url)).json(body);
        request.send().await.unwrap()
    }

    async fn get(&self, path: &str) -> Value {
        let answer = self.client.get(format!("{}{path}", self.url)).send().await;
        answer.unwrap().json().await.unwrap()
    }

    async fn order(&self, reference: &str, customer: &str) {
        let order = json!({
            "reference": reference, "customer": customer, "item": "tea", "pieces": 2, "cents": 500,
        });
        let answer = self.post("/orders", &order).await;
        assert_eq!(answer.status(), StatusCode::ACCEPTED);
    }

    fn find(&self, reference: &str) -> FomRef<Order> {
        let found = self.app.runtime.find::<Order>(reference);
        found.expect("the order is in flight")
    }

    async fn reach(&self, reference: &str, phase: FulfilKind) {
        let reached = self.find(reference).reached([phase]).await;
        assert_eq!(reached, Reached::Phase(phase));
    }

    /// Calls back, as the provider does.
    async fn paid(&self, reference: &str) -> StatusCode {
        let webhook = Webhook {
            id: format!("call {reference}"),
            reference: reference.to_owned(),
            paid: true,
        };
        let answer = self.post("/webhooks/payment", &json!(webhook)).await;
        answer.status()
    }

    async fn cancel(&self, reference: &str) -> StatusCode {
        let request = self
            .client
            .delete(format!("{}/orders/{reference}", self.url));
        request.send().await.unwrap().status()
    }

    async fn progress(&self, reference: &str) -> Stream {
        let url = format!("{}/orders/{reference}/progress", self.url);
        let answer = self.client.get(url).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let read = String::new();
        Stream { answer, read }
    }

    /// Waits until a request of this kind arrives at the provider, and returns its order.
    async fn arrival(&mut self, wanted: &str) -> String {
        loop {
            let (what, reference) = self.arrived.recv().await.unwrap();
            if what == wanted {
                return reference;
            }
        }
    }

    fn refunds(&self) -> Vec<String> {
        self.bank.refunds.lock().unwrap().clone()
    }

    /// Returns how many pieces are in stock, and how many are reserved.
    fn stock(&self) -> (u32, u32) {
        let shop = Shop::open(&self.directory.join("shop.sqlite")).unwrap();
        shop.count("tea").unwrap()
    }

    /// Changes the shop's database behind its back.
    fn alter(&self, sql: &str) {
        let shop = rusqlite::Connection::open(self.directory.join("shop.sqlite")).unwrap();
        shop.execute_batch(sql).unwrap();
    }
}

/// Server-sent events.
struct Stream {
    answer: Response,
    read: String,
}

impl Stream {
    /// Reads until the client has seen this phase.
    async fn until(&mut self, phase: &str) {
        while !self.read.contains(&format!("data: {phase}\n")) {
            let chunk = self.answer.chunk().await.unwrap();
            let chunk = chunk.expect("the stream goes on");
            self.read += std::str::from_utf8(&chunk).unwrap();
        }
    }

    /// Reads to the end, and returns all phases.
    async fn all(mut self) -> Vec<String> {
        while let Some(chunk) = self.answer.chunk().await.unwrap() {
            self.read += std::str::from_utf8(&chunk).unwrap();
        }
        let lines = self.read.lines();
        let phases = lines.filter_map(|line| line.strip_prefix("data: "));
        phases.map(str::to_owned).collect()
    }
}

/// Serves on a free port, and returns the URL.
async fn serve(routes: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await });
    format!("http://{address}")
}

const LIMIT: Duration = Duration::from_secs(60);

async fn limited(test: impl Future<Output = ()>) {
    tokio::time::timeout(LIMIT, test)
        .await
        .expect("the test is over in time");
}

#[tokio::test]
async fn a_client_reads_the_progress_to_its_end() {
    limited(async {
        let service = Service::start("progress").await;
        service.order("1", "ada").await;
        service.reach("1", FulfilKind::AwaitPayment).await;
        let mut progress = service.progress("1").await;
        progress.until("AwaitPayment").await;
        assert_eq!(service.paid("1").await, StatusCode::ACCEPTED);
        assert_eq!(progress.all().await, ["AwaitPayment", "Ship", "Shipped"]);
        // A client that comes later hears the end.
        assert_eq!(service.progress("1").await.all().await, ["Shipped"]);
        assert_eq!(service.get("/orders/1").await["end"], "Shipped");
    })
    .await;
}

#[tokio::test]
async fn a_failed_order_is_listed_and_succeeds_when_it_is_tried_again() {
    limited(async {
        let service = Service::start("failed").await;
        service.alter("ALTER TABLE parcels RENAME TO mislaid");
        service.order("1", "ada").await;
        service.reach("1", FulfilKind::AwaitPayment).await;
        let progress = service.progress("1").await;
        service.paid("1").await;
        assert_eq!(progress.all().await.last().unwrap(), "failed");
        let failed = service.get("/failed").await;
        assert_eq!(failed.as_array().unwrap().len(), 1, "{failed}");
        assert_eq!(
            (&failed[0]["key"], &failed[0]["phase"]),
            (&json!("1"), &json!("Ship"))
        );
        let cause = failed[0]["failure"]["cause"].as_str().unwrap();
        assert!(cause.contains("no such table: parcels"), "{cause}");
        // It was paid, and nothing was sent: it is not over.
        assert_eq!(service.cancel("1").await, StatusCode::CONFLICT);
        assert!(service.refunds().is_empty());

        service.alter("ALTER TABLE mislaid RENAME TO parcels");
        let answer = service.post("/failed/retry", &Value::Null).await;
        let answer: Value = answer.json().await.unwrap();
        assert_eq!(answer, json!({ "retried": 1, "refused": 0 }));
        assert_eq!(
            service.progress("1").await.all().await.last().unwrap(),
            "Shipped"
        );
        assert_eq!(service.get("/failed").await, json!([]));
        assert_eq!(service.stock(), (999_998, 2));
    })
    .await;
}

/// A cancel before the parcel is sent gives back the money and the goods, wherever the order is.
#[tokio::test]
async fn a_cancel_in_the_middle_takes_all_back() {
    limited(async {
        let mut service = Service::start("cancel").await;
        service.order("waiting", "ada").await;
        service.order("queued", "ada").await;
        service.reach("waiting", FulfilKind::AwaitPayment).await;
        assert_eq!(service.arrival("charge").await, "waiting");
        assert_eq!(service.stock(), (999_998, 2));
        // An order that has not begun just ends.
        assert_eq!(service.cancel("queued").await, StatusCode::ACCEPTED);
        assert_eq!(service.get("/orders/queued").await["end"], "Cancelled");

        assert_eq!(service.cancel("waiting").await, StatusCode::ACCEPTED);
        assert_eq!(
            service
                .progress("waiting")
                .await
                .all()
                .await
                .last()
                .unwrap(),
            "Cancelled"
        );
        let why = service.get("/orders/waiting").await["why"].clone();
        assert_eq!(why, "the customer gave the order up");
        assert_eq!(service.refunds(), ["waiting"]);
        // The payment comes too late, and a repeated cancel changes nothing.
        assert_eq!(service.paid("waiting").await, StatusCode::NO_CONTENT);
        assert_eq!(service.cancel("waiting").await, StatusCode::ACCEPTED);

        // A charge under way is dropped. The provider may have it, so it is paid back, too.
        service.bank.is_open.send_replace(false);
        service.order("charging", "bob").await;
        assert_eq!(service.arrival("charge").await, "charging");
        assert_eq!(service.cancel("charging").await, StatusCode::ACCEPTED);
        service.bank.is_open.send_replace(true);
        assert_eq!(
            service
                .progress("charging")
                .await
                .all()
                .await
                .last()
                .unwrap(),
            "Cancelled"
        );
        assert!(service.refunds().contains(&"charging".to_owned()));
        assert_eq!(service.stock(), (1_000_000, 0));
        assert_eq!(service.cancel("unknown").await, StatusCode::NOT_FOUND);
    })
    .await;
}

/// After the parcel is sent, and on the way back from a failure, a cancel changes nothing.
#[tokio::test]
async fn a_cancel_that_comes_too_late_loses_no_order() {
    limited(async {
        let mut service = Service::start("late").await;
        service.order("sent", "ada").await;
        service.reach("sent", FulfilKind::AwaitPayment).await;
        service.paid("sent").await;
        assert_eq!(
            service.progress("sent").await.all().await.last().unwrap(),
            "Shipped"
        );
        assert_eq!(service.cancel("sent").await, StatusCode::CONFLICT);

        service.bank.is_open.send_replace(false);
        service.alter("ALTER TABLE reservations RENAME TO mislaid");
        service.order("failing", "ada").await;
        assert_eq!(service.arrival("refund").await, "failing");
        assert_eq!(service.cancel("failing").await, StatusCode::ACCEPTED);
        service.alter("ALTER TABLE mislaid RENAME TO reservations");
        service.bank.is_open.send_replace(true);
        assert_eq!(
            service
                .progress("failing")
                .await
                .all()
                .await
                .last()
                .unwrap(),
            "Cancelled"
        );
        let why = service.get("/orders/failing").await["why"].clone();
        assert!(
            why.to_string().contains("no such table: reservations"),
            "{why}"
        );
        assert!(service.refunds().contains(&"failing".to_owned()));
        assert_eq!(service.stock(), (999_998, 2));
    })
    .await;
}

#[tokio::test]
async fn eight_orders_are_charged_at_once() {
    limited(async {
        let mut service = Service::start("limit").await;
        service.bank.is_open.send_replace(false);
        let references: Vec<_> = (0..12).map(|number| number.to_string()).collect();
        for reference in &references {
            service.order(reference, reference).await;
            service.reach(reference, FulfilKind::Charge).await;
        }
        let mut charged = BTreeSet::new();
        while charged.len() < 8 {
            charged.insert(service.arrival("charge").await);
        }
        let [charges] = &*service.app.runtime.limits().status() else {
            panic!("one limit");
        };
        assert_eq!((charges.places, charges.running), (Some(8), 8));
        service.bank.is_open.send_replace(true);
        for reference in &references {
            service.reach(reference, FulfilKind::AwaitPayment).await;
        }
    })
    .await;
}
