//! Sends orders to the service, kills it with `kill -9` again and again, and checks the books at the end: every accepted
//! order has ended, no customer paid twice, and no piece is lost.
//!
//! `load [--orders N] [--kills N] [--limit SECONDS] [--server PATH]..`: each start takes the next of the given servers, and
//! the last one stays. It fails if it takes longer than the limit.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fom_runtime::prelude::BoxError;
use orders::{order::Order, shop::Shop};
use reqwest::{Client, StatusCode};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::{sleep, timeout},
};

const CUSTOMERS: usize = 10;
const STOCK: u32 = 1_000_000;

struct Settings {
    orders: usize,
    kills: usize,
    limit: Duration,
    servers: Vec<PathBuf>,
    directory: PathBuf,
}

impl Settings {
    fn parse() -> Result<Self, BoxError> {
        use lexopt::prelude::*;
        let mut settings = Self {
            orders: 300,
            kills: 5,
            limit: Duration::from_secs(600),
            servers: Vec::new(),
            directory: std::env::temp_dir().join(format!("orders-{}", std::process::id())),
        };
        let mut arguments = lexopt::Parser::from_env();
        while let Some(argument) = arguments.next()? {
            match argument {
                Long("orders") => settings.orders = arguments.value()?.parse()?,
                Long("kills") => settings.kills = arguments.value()?.parse()?,
                Long("limit") => {
                    settings.limit = Duration::from_secs(arguments.value()?.parse()?);
                }
                Long("server") => settings.servers.push(arguments.value()?.into()),
                other => return Err(other.unexpected().into()),
            }
        }
        if settings.servers.is_empty() {
            settings.servers.push(beside("orders")?);
        }
        Ok(settings)
    }
}

/// The path of another program of this package.
fn beside(name: &str) -> Result<PathBuf, BoxError> {
    let own = std::env::current_exe()?;
    let folder = own.parent().ok_or("a program is in a folder")?;
    Ok(folder.join(name))
}

/// Starts a program, and returns the address in its first line.
async fn start(path: &Path, arguments: &[&str]) -> Result<(Child, String), BoxError> {
    let mut command = Command::new(path);
    command
        .args(arguments)
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn()?;
    let stdout = child.stdout.take().ok_or("the output is piped")?;
    let mut lines = BufReader::new(stdout).lines();
    let begin = timeout(Duration::from_secs(60), lines.next_line()).await??;
    let line = begin.ok_or_else(|| format!("{} ended at once", path.display()))?;
    let address = line.rsplit(' ').next().unwrap_or_default().to_owned();
    // The rest of the output is read, so that the program is never blocked by it.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Ok((child, address))
}

/// The server, its address, and what starts it anew.
struct Server {
    child: Child,
    address: String,
    arguments: Vec<String>,
    servers: Vec<PathBuf>,
    starts: usize,
}

impl Server {
    async fn start(settings: &Settings, provider: &str) -> Result<Self, BoxError> {
        let directory = settings.directory.display().to_string();
        let provider = format!("http://{provider}");
        let mut arguments = vec![
            "--directory".into(),
            directory,
            "--provider".into(),
            provider,
        ];
        let servers = settings.servers.clone();
        let (child, address) = launch(&servers[0], &arguments).await?;
        // The address stays the same, as the provider's webhooks need it.
        arguments.extend(["--address".into(), address.clone()]);
        Ok(Self {
            child,
            address,
            arguments,
            servers,
            starts: 1,
        })
    }

    async fn kill(&mut self) -> Result<(), BoxError> {
        self.child.kill().await?;
        let next = &self.servers[self.starts.min(self.servers.len() - 1)];
        self.child = launch(next, &self.arguments).await?.0;
        self.starts += 1;
        Ok(())
    }
}

async fn launch(path: &Path, arguments: &[String]) -> Result<(Child, String), BoxError> {
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    start(path, &arguments).await
}

/// A client: repeats each request until the service answers.
#[derive(Clone)]
struct Web {
    client: Client,
    url: String,
}

impl Web {
    async fn order(&self, order: &Order) {
        loop {
            let sent = self
                .client
                .post(format!("{}/orders", self.url))
                .json(order)
                .send()
                .await;
            if sent.is_ok_and(|answer| answer.status() == StatusCode::ACCEPTED) {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    async fn cancel(&self, reference: &str) {
        let url = format!("{}/orders/{reference}", self.url);
        while self.client.delete(&url).send().await.is_err() {
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits for the end of an order, and returns its name.
    async fn end(&self, reference: &str) -> String {
        let url = format!("{}/orders/{reference}", self.url);
        loop {
            if let Ok(answer) = self.client.get(&url).send().await
                && let Ok(order) = answer.json::<Value>().await
                && let Some(end) = order["end"].as_str()
            {
                return end.to_owned();
            }
            sleep(Duration::from_millis(20)).await;
        }
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

/// What one customer saw: each order with its end.
async fn shop(
    web: Web,
    customer: usize,
    orders: usize,
    accepted: Arc<AtomicUsize>,
) -> Vec<(Order, String)> {
    let all: Vec<_> = (0..orders).map(|number| order(customer, number)).collect();
    for (number, order) in all.iter().enumerate() {
        web.order(order).await;
        accepted.fetch_add(1, Ordering::Relaxed);
        if number % 7 == 3 {
            web.cancel(&order.reference).await;
        }
    }
    let mut ends = Vec::new();
    for order in all {
        let end = web.end(&order.reference).await;
        ends.push((order, end));
    }
    ends
}

/// Compares what the customers saw with the books of the provider and of the shop.
fn check(ends: &[(Order, String)], books: &Value, shop: &Shop) -> Result<(), BoxError> {
    let mut charges: HashMap<&str, Vec<bool>> = HashMap::new();
    for charge in books["charges"].as_array().ok_or("no charges")? {
        let reference = charge["reference"].as_str().unwrap_or_default();
        charges
            .entry(reference)
            .or_default()
            .push(charge["paid"] == true);
    }
    let parcels = shop.parcels()?;
    let mut sent = 0;
    for (order, end) in ends {
        let reference = &*order.reference;
        let charged = charges.get(reference).map_or(&[][..], |charged| charged);
        let refunds = books["refunds"][reference].as_u64().unwrap_or(0);
        let parcels = parcels.iter().filter(|parcel| *parcel == reference).count();
        let is_right = match end.as_str() {
            "Shipped" => charged == [true] && refunds == 0 && parcels == 1,
            // A customer that has paid has the money back.
            "Cancelled" => {
                charged.len() <= 1 && parcels == 0 && (charged != [true] || refunds == 1)
            }
            _ => false,
        };
        if !is_right {
            return Err(format!(
                "order {reference} is {end}: charges {charged:?}, {refunds} refunds, {parcels} parcels"
            )
            .into());
        }
        if end == "Shipped" {
            sent += order.pieces;
        }
    }
    let (stock, reserved) = shop.count("tea")?;
    if (stock + sent, reserved) != (STOCK, sent) {
        return Err(format!("{stock} in stock, {reserved} reserved, {sent} sent").into());
    }
    // The parcels of one customer are in the order of the orders.
    for customer in 0..CUSTOMERS {
        let of = parcels
            .iter()
            .filter_map(|parcel| parcel.strip_prefix(&format!("{customer}-")));
        let numbers: Vec<usize> = of.map(str::parse).collect::<Result<_, _>>()?;
        if !numbers.is_sorted() {
            return Err(format!(
                "the parcels of customer {customer} are out of order: {numbers:?}"
            )
            .into());
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let settings = Settings::parse()?;
    timeout(settings.limit, run(&settings)).await?
}

async fn run(settings: &Settings) -> Result<(), BoxError> {
    std::fs::create_dir_all(&settings.directory)?;
    let (_provider, provider) = start(&beside("provider")?, &["127.0.0.1:0"]).await?;
    let mut server = Server::start(settings, &provider).await?;
    let client = Client::builder().timeout(Duration::from_secs(10)).build()?;
    let web = Web {
        client: client.clone(),
        url: format!("http://{}", server.address),
    };

    let accepted = Arc::new(AtomicUsize::new(0));
    let mut customers = Vec::new();
    for customer in 0..CUSTOMERS {
        let orders = settings.orders / CUSTOMERS;
        customers.push(tokio::spawn(shop(
            web.clone(),
            customer,
            orders,
            Arc::clone(&accepted),
        )));
    }
    let total = settings.orders / CUSTOMERS * CUSTOMERS;
    for kill in 1..=settings.kills {
        // The kills are spread over the orders.
        while accepted.load(Ordering::Relaxed) < total * kill / (settings.kills + 1) {
            sleep(Duration::from_millis(1)).await;
        }
        server.kill().await?;
        println!(
            "killed {kill} times, {} of {total} orders accepted",
            accepted.load(Ordering::Relaxed)
        );
    }
    let mut ends = Vec::new();
    for customer in customers {
        ends.extend(customer.await?);
    }
    let books: Value = client
        .get(format!("http://{provider}/books"))
        .send()
        .await?
        .json()
        .await?;
    check(
        &ends,
        &books,
        &Shop::open(&settings.directory.join("shop.sqlite"))?,
    )?;

    let shipped = ends.iter().filter(|(_, end)| end == "Shipped").count();
    println!(
        "{} orders: {shipped} shipped, {} cancelled; {} requests to the provider, {} charges; {} kills, nothing lost",
        ends.len(),
        ends.len() - shipped,
        books["requests"],
        books["charges"].as_array().map_or(0, Vec::len),
        settings.kills,
    );
    server.child.kill().await?;
    std::fs::remove_dir_all(&settings.directory)?;
    Ok(())
}
