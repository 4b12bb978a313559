//! The program of a node. It reads a command in each line, and answers with a line that begins with its number.

use std::{env, fs::File};

use fom_cluster::{Cluster, ClusterError, Place, Tcp};
use fom_durable::prelude::*;
use fom_nats::NatsEngine;
use fom_postgres::PostgresEngine;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::{
    bank::{Log, News, Visit, account_key, serve},
    counters::{self, Counters},
    release::{Account, Transfer},
};

pub(crate) const SLOTS: u16 = 8;

/// `config name address log`
pub(crate) fn run(args: &[String]) -> Result<(), BoxError> {
    let [config, name, address, log] = args else {
        return Err("a node has four arguments".into());
    };
    let log = File::options().append(true).create(true).open(log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let has_table = !config.starts_with("nats:");
    let log = Log::new(log, name, has_table);
    runtime.block_on(serve_commands(config, name, address, log))
}

async fn serve_commands(config: &str, name: &str, address: &str, log: Log) -> Result<(), BoxError> {
    let secret = env::var("FOM_CLUSTER_SECRET")?;
    let builder = match config.strip_prefix("nats:") {
        Some(hosts) => {
            let hosts = hosts.split(',');
            let servers = hosts.clone().map(|host| format!("nats://{host}:4222"));
            let monitors = hosts.map(|host| format!("http://{host}:8222"));
            Cluster::builder(
                NatsEngine::builder(servers, monitors, "bank").build()?,
                name,
            )
        }
        None => Cluster::builder(PostgresEngine::builder(config, "bank").build()?, name),
    };
    let builder = builder
        .network(Tcp::bind(address)?.secret(secret))
        .slots(SLOTS);
    let builder = counters::serve(builder, &log);
    let cluster = serve(builder, log).join().await?;
    let counters = Counters::new(&cluster)?;
    println!("joined");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        if words == ["leave"] {
            cluster.leave().await;
            return Ok(());
        }
        let (cluster, counters) = (cluster.clone(), counters.clone());
        tokio::spawn(async move {
            let number = words.first().map_or("", String::as_str);
            match carry_out(&cluster, &counters, &words).await {
                Ok(told) => println!("{number} ended {told}"),
                Err(why) => println!("{number} failed {why}"),
            }
        });
    }
    Ok(())
}

async fn carry_out(
    cluster: &Cluster,
    counters: &Counters,
    words: &[String],
) -> Result<String, BoxError> {
    let number = |at: usize| -> Result<u32, BoxError> {
        let word = words.get(at).ok_or("a command has too few words")?;
        Ok(word.parse()?)
    };
    match words.get(1).map(String::as_str) {
        Some("open") => {
            let account = Account::new(number(2)?);
            let key = account_key(number(2)?);
            let submission = cluster.submit(account).key(key).once("the one");
            drop(submission.start().await.map_err(|not| not.reason)?);
            Ok(String::new())
        }
        Some("transfer") => {
            let transfer = Transfer::new(number(2)?, number(3)?, number(4)?);
            let key = format!("transfer {}", transfer.number);
            let submission = cluster.submit(transfer).key(key).once("the one");
            let started = submission.start().await.map_err(|not| not.reason)?;
            match started.await? {
                Ok(ended) => Ok(ended.operation.number.to_string()),
                Err(failure) => Err(failure.to_string().into()),
            }
        }
        // Returns when the visit is in the journal, and not when it has ended.
        Some("visit") => {
            let (visit, desk) = (number(2)?, number(3)?);
            let submission = cluster.submit(Visit {
                number: visit,
                desk,
            });
            let key = format!("desk {desk}");
            let submission = submission.key(key).queue().once(visit);
            drop(submission.start().await.map_err(|not| not.reason)?);
            Ok(String::new())
        }
        Some("left") => {
            let place = Place::key(format!("desk {}", number(3)?)).with_once(number(2)?);
            match cluster.outcome::<Visit>(place).await? {
                Ok(ended) => Ok(ended.operation.number.to_string()),
                Err(failure) => Err(failure.to_string().into()),
            }
        }
        Some("count") => {
            let count = counters.count(number(2)?, number(3)?).await?;
            Ok(count.to_string())
        }
        Some("close") => close(cluster, number(2)?, number(3)? as usize).await,
        _ => Err("an unknown command".into()),
    }
}

/// Closes an account, and returns its bookings.
async fn close(cluster: &Cluster, account: u32, expects: usize) -> Result<String, BoxError> {
    let key = account_key(account);
    match cluster
        .send::<Account>(&*key, News::Close { expects }, "close")
        .await
    {
        // It has ended before.
        Ok(_) | Err(ClusterError::Unknown(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let place = Place::key(key).with_once("the one");
    match cluster.outcome::<Account>(place).await? {
        Ok(ended) => {
            let booked = ended.operation.booked.into_iter();
            let booked: Vec<_> = booked.map(|(of, cents)| format!("{of}:{cents}")).collect();
            Ok(booked.join(","))
        }
        Err(failure) => Err(failure.to_string().into()),
    }
}
