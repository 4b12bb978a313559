//! Commands about the client and the server.

use std::fmt::Write as _;

use bytes::Bytes;
use fom_runtime::{prelude::*, time::Instant};

use super::{Client, Connection, Why};
use crate::command::{Command, Kind, OfClient, scripts, table, wrong_number};
use crate::common::Common;
use crate::pop::Pop;
use crate::save::Writer;
use crate::shard::Shard;
use crate::transaction::Transaction;
use crate::wire::{Reply, Request};

/// Answers a command that needs no wait. Returns `None` for any other command.
pub(super) fn at_once(
    cx: &Cx<'_>,
    common: &Common,
    me: &Client,
    what: OfClient,
    request: &Request,
) -> Option<Reply> {
    Some(match what {
        OfClient::Ping => match request.len() {
            1 => Reply::Status("PONG"),
            2 => Reply::Bulk(Bytes::copy_from_slice(request.word(1))),
            _ => wrong_number("ping"),
        },
        OfClient::Echo => Reply::Bulk(Bytes::copy_from_slice(request.word(1))),
        OfClient::Select if request.word(1) == b"0" => Reply::OK,
        OfClient::Select => Reply::error("ERR DB index is out of range"),
        OfClient::Command => commands(request),
        OfClient::Config => config(common, request),
        OfClient::Client => client(cx, common, me, request),
        OfClient::Time => {
            let now = common.wall.now();
            let part = |number: u64| Reply::text(number.to_string());
            Reply::Array(vec![part(now / 1000), part(now % 1000 * 1000)])
        }
        OfClient::Auth => super::hello::auth(request),
        OfClient::Script => scripts::about(request),
        OfClient::Fom => foms(&cx.runtime(), request),
        _ => return None,
    })
}

/// The version of Redis that clients see. The commands of this server are of that version.
pub(super) const VERSION: &str = "7.0.0";

pub(super) fn is(word: &[u8], name: &str) -> bool {
    word.eq_ignore_ascii_case(name.as_bytes())
}

fn subcommand(request: &Request) -> Reply {
    let shown = request.word(1);
    let shown = shown[..shown.len().min(128)].escape_ascii();
    Reply::Error(
        format!(
            "ERR unknown subcommand or wrong number of arguments for '{shown}'. Try {} HELP.",
            request.name().to_uppercase()
        )
        .into(),
    )
}

fn commands(request: &Request) -> Reply {
    match request.len() {
        1 => Reply::Array(
            table()
                .iter()
                .map(|spec| {
                    let flag = if spec.writes { "write" } else { "readonly" };
                    let (first, last, step) = match spec.kind {
                        Kind::Key(_) => (1, 1, 1),
                        Kind::Keys(_, stride, _) => (1, -1, stride as i64),
                        Kind::Pop(_) => (1, -2, 1),
                        _ => (0, 0, 0),
                    };
                    Reply::Array(vec![
                        Reply::text(spec.name),
                        Reply::Int(spec.arity.into()),
                        Reply::Set(vec![Reply::Status(flag)]),
                        Reply::Int(first),
                        Reply::Int(last),
                        Reply::Int(step),
                        // No access categories, no hints and keys for clusters, no subcommands.
                        Reply::Set(Vec::new()),
                        Reply::Set(Vec::new()),
                        Reply::Set(Vec::new()),
                        Reply::Array(Vec::new()),
                    ])
                })
                .collect(),
        ),
        _ if is(request.word(1), "count") => Reply::count(table().len()),
        // redis-cli asks for this at its start, and works without an answer.
        _ if is(request.word(1), "docs") => Reply::Map(Vec::new()),
        _ => subcommand(request),
    }
}

fn config(common: &Common, request: &Request) -> Reply {
    match request.len() {
        3 if is(request.word(1), "get") => {
            let pairs = common.configuration(request.word(2));
            let texts = pairs
                .into_iter()
                .map(|(name, value)| (Reply::text(name), Reply::text(value)));
            Reply::Map(texts.collect())
        }
        4 if is(request.word(1), "set") => {
            let (name, value) = (request.word(2), request.word(3));
            match common.configure(name, value) {
                Ok(()) => Reply::OK,
                Err(error) => Reply::Error(format!("ERR {error}").into()),
            }
        }
        _ => subcommand(request),
    }
}

fn client(cx: &Cx<'_>, common: &Common, me: &Client, request: &Request) -> Reply {
    let which = request.word(1);
    match request.len() {
        2 if is(which, "id") => Reply::Int(me.id as i64),
        2 if is(which, "getname") => match me.about().name.as_str() {
            "" => Reply::Null,
            name => Reply::text(name),
        },
        2 if is(which, "info") => Reply::verbatim(me.line(cx.now())),
        2 if is(which, "list") => common.clients.list(cx.now()),
        3 if is(which, "setname") => super::hello::set_name(me, request.word(2)),
        4 if is(which, "setinfo") => super::hello::set_info(me, request.word(2), request.word(3)),
        _ => subcommand(request),
    }
}

/// The live view of the server's foms.
fn foms(runtime: &Runtime, request: &Request) -> Reply {
    let which = request.word(1);
    match request.len() {
        2 if is(which, "list") => Reply::text(runtime.operations().to_string()),
        2 if is(which, "why") => {
            let mut text = String::new();
            for fom in &runtime.operations().foms {
                if let Some(what) = fom.waiting_for() {
                    // Writing to a string does not fail.
                    let _ = writeln!(
                        text,
                        "{} {} in {} for {:.1?}, waits for {what}",
                        fom.operation, fom.id, fom.phase, fom.times.in_phase
                    );
                }
            }
            Reply::text(text)
        }
        3 if is(which, "graph") => match graph(request.word(2)) {
            Some(graph) => Reply::text(graph),
            None => Reply::error("ERR there is: client, command, pop, transaction, writer"),
        },
        _ => subcommand(request),
    }
}

/// Returns a machine of this server, as a Mermaid drawing.
pub fn graph(name: &[u8]) -> Option<String> {
    let graph = match name.to_ascii_lowercase().as_slice() {
        b"client" => &Connection::GRAPH,
        b"command" => &Command::GRAPH,
        b"pop" => &Pop::GRAPH,
        b"transaction" => &Transaction::GRAPH,
        b"writer" => &Writer::GRAPH,
        _ => return None,
    };
    Some(graph.mermaid().to_string())
}

/// INFO: the sums of all localities.
pub(super) async fn info(runtime: &Runtime, common: &Common) -> Result<Reply, Why> {
    let shards = runtime
        .each(|local| {
            let shard = local.data::<Shard>();
            (
                shard.len(),
                shard.expiring(),
                shard.waiting(),
                shard.commands,
            )
        })
        .await
        .map_err(|_| Why::Stopping)?;
    let (connected, ever, rejected) = common.clients.counts();
    let [slow, malformed, idle] = common.clients.away();
    let operations = runtime.operations();
    let mut text = format!(
        "# Server\r\nserver_name:fom-kv\r\nredis_version:{VERSION}\r\nredis_mode:standalone\r\n\
         process_id:{}\r\nlocalities:{}\r\nuptime_in_seconds:{}\r\n\r\n\
         # Clients\r\nconnected_clients:{connected}\r\nblocked_clients:{}\r\nmaxclients:{}\r\n\r\n\
         # Memory\r\nmem_clients_normal:{}\r\nmaxmemory_clients:{}\r\n\r\n\
         # Persistence\r\nloading:0\r\nsave:{}\r\nchanges_not_saved:{}\r\nlast_write_status:{}\r\n\r\n\
         # Stats\r\ntotal_connections_received:{ever}\r\nrejected_connections:{rejected}\r\n\
         sent_away_slow:{slow}\r\nsent_away_malformed:{malformed}\r\nsent_away_idle:{idle}\r\n\
         evicted_clients:{}\r\n\
         total_commands_received:{}\r\ncommands_run_on_keys:{}\r\n\r\n\
         # Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n# Foms\r\n",
        std::process::id(),
        runtime.localities(),
        (runtime.now() - Instant::START).as_secs(),
        shards.iter().map(|shard| shard.2).sum::<usize>(),
        common.live.clients(),
        common.memory.all(),
        common.memory.limit(),
        common.save_mode(),
        common.log.as_ref().map_or(0, |log| log.unsaved()),
        if common.log.as_ref().is_some_and(|log| log.is_broken()) {
            "err"
        } else {
            "ok"
        },
        common.memory.evicted(),
        common.clients.commands(),
        shards.iter().map(|shard| shard.3).sum::<u64>(),
    );
    for kind in &operations.types {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "{}:in_flight={},ended={},failed={},mean_us={}\r\n",
            kind.operation
                .rsplit("::")
                .next()
                .unwrap_or(kind.operation)
                .to_lowercase(),
            kind.in_flight,
            kind.ended,
            kind.failed,
            kind.mean.as_micros(),
        );
    }
    text.push_str("\r\n# Keyspace\r\n");
    for (index, (keys, expiring, ..)) in shards.iter().enumerate() {
        let _ = write!(text, "locality{index}:keys={keys},expires={expiring}\r\n");
    }
    let keys: usize = shards.iter().map(|shard| shard.0).sum();
    let expires: usize = shards.iter().map(|shard| shard.1).sum();
    let _ = write!(text, "db0:keys={keys},expires={expires},avg_ttl=0\r\n");
    Ok(Reply::verbatim(text))
}

/// SCAN: a cursor is a locality, so each call looks at one locality.
pub(super) async fn scan(runtime: &Runtime, request: &Request) -> Result<Reply, Why> {
    let Some(at) = crate::wire::integer(request.word(1)).and_then(|at| usize::try_from(at).ok())
    else {
        return Ok(Reply::error("ERR invalid cursor"));
    };
    let mut pattern: &[u8] = b"*";
    let mut words = request.words_from(2);
    while let Some(option) = words.next() {
        match words.next() {
            Some(value) if is(option, "match") => pattern = value,
            Some(_) if is(option, "count") => {}
            _ => return Ok(Reply::SYNTAX),
        }
    }
    let pattern = pattern.to_vec();
    let keys = match runtime
        .call(at, move |local| local.data::<Shard>().matching(&pattern))
        .await
    {
        Ok(keys) => keys,
        // A cursor that the server never gave: the scan ends.
        Err(fom_runtime::error::CallError::NoSuchLocality(_)) => Vec::new(),
        Err(_) => return Err(Why::Stopping),
    };
    let next = if at + 1 < runtime.localities() {
        at + 1
    } else {
        0
    };
    Ok(Reply::Array(vec![
        Reply::text(next.to_string()),
        Reply::Array(keys),
    ]))
}
