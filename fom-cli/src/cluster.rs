//! The commands for a cluster.

use std::{env, fs};

#[cfg(feature = "tls")]
use fom_cluster::Tls;
use fom_cluster::{ClusterError, InQuarantine, Operator, Report, Slot};
use fom_runtime::FomId;
use serde_json::{Value, json};

use crate::{
    args::{Asked, Cluster},
    failure::Failure,
    output::Output,
};

/// The variable with the address of a node.
const ADDRESS: &str = "FOM_CLUSTER";
/// The variable with the secret of the nodes.
const SECRET: &str = "FOM_CLUSTER_SECRET";

/// Runs a command. Returns its exit status.
pub(crate) fn run(command: &Cluster, output: &mut Output<'_>) -> Result<u8, Failure> {
    let operator = operator(command.asked())?;
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start the client: {error}")))?;
    let done = tokio.block_on(execute(&operator, command));
    match done.map_err(failure)? {
        Done::Report(report) => show(&report, output)?,
        Done::Quarantine(entries) => list(&entries, output)?,
        Done::Said(what) if output.is_json() => output.object(&json!({ "done": what }))?,
        Done::Said(what) => output.line(&what)?,
    }
    Ok(0)
}

enum Done {
    Report(Report),
    Quarantine(Vec<InQuarantine>),
    Said(String),
}

async fn execute(operator: &Operator, command: &Cluster) -> Result<Done, ClusterError> {
    let said = match command {
        Cluster::Status(_) => return Ok(Done::Report(operator.report().await?)),
        Cluster::Quarantine(_) => return Ok(Done::Quarantine(operator.quarantine().await?)),
        Cluster::Drain(of) => {
            operator.drain(&of.node).await?;
            format!(
                "{} gives its slots up; `fom cluster status` shows how many are left",
                of.node
            )
        }
        Cluster::Undrain(of) => {
            operator.undrain(&of.node).await?;
            format!("{} takes slots again", of.node)
        }
        Cluster::Pin(pin) => {
            let slot = Slot(pin.slot);
            operator.pin(slot, &pin.node).await?;
            format!("{slot} is pinned to {}", pin.node)
        }
        Cluster::Unpin(unpin) => {
            let slot = Slot(unpin.slot);
            operator.unpin(slot).await?;
            format!("{slot} is pinned to no node")
        }
        Cluster::Retry(entry) => {
            let slot = Slot(entry.slot);
            operator.retry(slot, FomId::from(entry.id)).await?;
            format!("{slot}, {} runs again", entry.id)
        }
        Cluster::Discard(entry) => {
            let slot = Slot(entry.slot);
            operator.discard(slot, FomId::from(entry.id)).await?;
            format!("{slot}, {} is removed", entry.id)
        }
    };
    Ok(Done::Said(said))
}

fn operator(asked: &Asked) -> Result<Operator, Failure> {
    let named = asked.at.clone().or_else(|| env::var(ADDRESS).ok());
    let Some(address) = named.filter(|address| !address.is_empty()) else {
        return Err(Failure::usage(format!(
            "which node? Give its address with `--at HOST:PORT`, or in the variable {ADDRESS}"
        )));
    };
    // The command line has no place for the secret: all users of a machine can read it.
    let secret = match &asked.secret_file {
        Some(path) => {
            let secret = fs::read_to_string(path);
            let place = path.display();
            secret.map_err(|error| Failure::usage(format!("cannot read {place}: {error}")))?
        }
        None => env::var(SECRET).unwrap_or_default(),
    };
    let secret = secret.trim_end_matches(['\r', '\n']);
    let operator = Operator::connect(address, secret);
    #[cfg(feature = "tls")]
    if let Some(files) = &asked.tls {
        let tls = Tls::read(&files.certificate, &files.key, &files.authority);
        return Ok(operator.tls(tls.map_err(|error| Failure::usage(error.to_string()))?));
    }
    Ok(operator)
}

fn failure(error: ClusterError) -> Failure {
    match &error {
        ClusterError::Unreachable { .. } | ClusterError::Left => Failure::Away(error.to_string()),
        _ => Failure::new(error.to_string()),
    }
}

fn show(report: &Report, output: &mut Output<'_>) -> Result<(), Failure> {
    if !output.is_json() {
        for line in report.to_string().lines() {
            output.line(line)?;
        }
        return Ok(());
    }
    for node in &report.nodes {
        let load = node.load.as_ref();
        output.object(&json!({
            "node": node.node.name,
            "address": node.node.address,
            "slots": node.node.slots,
            "leaves": node.node.leaves,
            "drained": node.node.drained,
            "answers": load.is_some(),
            "foms": load.map(|load| load.foms),
            "letters": load.map(|load| load.letters),
            "oldest_letter": load.map(|load| load.oldest_letter.as_secs_f64()),
            "quarantined": load.map(|load| load.quarantined),
            "troubles": load.map(|load| &load.troubles),
        }))?;
    }
    for slot in &report.slots {
        output.object(&json!({
            "slot": slot.slot.0,
            "term": slot.term,
            "owner": slot.owner,
            "since": slot.since.as_secs_f64(),
            "target": slot.target,
            "unread": slot.unread,
            "pinned": slot.pinned,
        }))?;
    }
    Ok(())
}

fn list(entries: &[InQuarantine], output: &mut Output<'_>) -> Result<(), Failure> {
    for entry in entries {
        if output.is_json() {
            output.object(&object(entry))?;
        } else {
            output.line(&entry.to_string())?;
        }
    }
    Ok(())
}

fn object(entry: &InQuarantine) -> Value {
    json!({
        "slot": entry.slot.0,
        "id": entry.id.get(),
        "operation": entry.operation,
        "phase": entry.phase,
        "key": entry.key.as_ref().map(ToString::to_string),
        "reason": entry.reason,
    })
}
