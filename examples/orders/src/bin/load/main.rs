//! Sends orders to the service, kills it with `kill -9` again and again, and checks the books at the end: every accepted
//! order has ended, no customer paid twice, and no piece is lost.
//!
//! `load [--orders N] [--kills N] [--limit SECONDS] [--server PATH]..`: each start takes the next of the given servers, and
//! the last one stays. It fails if it takes longer than the limit.
//!
//! `load --nodes N --database CONFIG ..` starts several nodes of one cluster instead, and kills one after the other. The customers ask any
//! node.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fom_runtime::prelude::BoxError;
use orders::shop::Shop;
use reqwest::{Client, StatusCode};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::{sleep, timeout},
};

use crate::{
    books::check,
    customer::{Seen, Web, shop},
};

mod books;
mod customer;

const CUSTOMERS: usize = 10;
const STOCK: u32 = 1_000_000;

struct Settings {
    orders: usize,
    kills: usize,
    limit: Duration,
    servers: Vec<PathBuf>,
    /// The number of nodes of a cluster. 0 is one service without a cluster.
    nodes: usize,
    /// Where the cluster is kept.
    database: String,
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
            nodes: 0,
            database: String::new(),
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
                Long("nodes") => settings.nodes = arguments.value()?.parse()?,
                Long("database") => settings.database = arguments.value()?.string()?,
                Long("server") => settings.servers.push(arguments.value()?.into()),
                other => return Err(other.unexpected().into()),
            }
        }
        if settings.servers.is_empty() {
            let server = if settings.nodes > 0 { "node" } else { "orders" };
            settings.servers.push(beside(server)?);
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
        .env("ORDERS_SECRET", "of all nodes of this try")
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
    /// Starts the service, or its node with this number.
    async fn start(settings: &Settings, provider: &str, node: usize) -> Result<Self, BoxError> {
        let directory = settings.directory.display().to_string();
        let provider = format!("http://{provider}");
        let mut arguments = vec![
            "--directory".into(),
            directory,
            "--provider".into(),
            provider,
        ];
        if settings.nodes > 0 {
            let name = format!("node-{node}");
            let database = settings.database.clone();
            arguments.extend(["--name".into(), name, "--database".into(), database]);
        }
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

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let settings = Settings::parse()?;
    timeout(settings.limit, run(&settings)).await?
}

async fn run(settings: &Settings) -> Result<(), BoxError> {
    std::fs::create_dir_all(&settings.directory)?;
    let (_provider, provider) = start(&beside("provider")?, &["127.0.0.1:0"]).await?;
    let mut servers = Vec::new();
    for node in 0..settings.nodes.max(1) {
        servers.push(Server::start(settings, &provider, node).await?);
    }
    let client = Client::builder().timeout(Duration::from_secs(10)).build()?;
    let urls = servers
        .iter()
        .map(|server| format!("http://{}", server.address));
    let mut web = Web {
        client: client.clone(),
        urls: urls.collect(),
        first: 0,
    };

    if settings.nodes > 0 {
        println!("waiting until each node has its share ..");
        println!("{}", shared(&web).await?);
    }
    let accepted = Arc::new(AtomicUsize::new(0));
    let mut customers = Vec::new();
    for customer in 0..CUSTOMERS {
        let orders = settings.orders / CUSTOMERS;
        web.first = customer % web.urls.len();
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
        let node = kill % servers.len();
        servers[node].kill().await?;
        println!(
            "killed {kill} times, {} of {total} orders accepted",
            accepted.load(Ordering::Relaxed)
        );
        if settings.nodes > 0 {
            println!("{}", cluster(&web, node).await?);
        }
    }
    let mut ends = Vec::new();
    for customer in customers {
        ends.extend(customer.await??);
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

    report(&ends, &books, settings.kills);
    for server in &mut servers {
        server.child.kill().await?;
    }
    std::fs::remove_dir_all(&settings.directory)?;
    Ok(())
}

/// What a node tells of the cluster.
async fn cluster(web: &Web, node: usize) -> Result<String, BoxError> {
    let url = format!("{}/cluster", web.urls[node]);
    Ok(web.client.get(url).send().await?.text().await?)
}

/// Waits until each slot is where it belongs. It moves there after ten quiet seconds.
async fn shared(web: &Web) -> Result<String, BoxError> {
    loop {
        let told = cluster(web, 0).await?;
        if !told.contains("no owner") && !told.contains("moves to") {
            return Ok(told);
        }
        sleep(Duration::from_millis(100)).await;
    }
}

fn report(all: &[Seen], books: &Value, kills: usize) {
    let ended = |end: &str| all.iter().filter(|seen| seen.end == end).count();
    let told = |code| all.iter().filter(|seen| seen.cancel == Some(code)).count();
    println!(
        "{} orders: {} shipped, {} cancelled; {} cancels accepted, {} too late; \
         {} requests to the provider, {} charges, {} refunds; {kills} kills, nothing lost",
        all.len(),
        ended("Shipped"),
        ended("Cancelled"),
        told(StatusCode::ACCEPTED),
        told(StatusCode::CONFLICT),
        books["requests"],
        books["charges"].as_array().map_or(0, Vec::len),
        books["refunds"]
            .as_object()
            .map_or(0, |refunds| refunds.len()),
    );
}
