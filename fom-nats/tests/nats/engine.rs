//! The promises of an engine.

use std::cell::Cell;

use fom_cluster::conformance;
use fom_nats::NatsEngine;

use crate::{SAFE, server::Servers};

/// Each check has a cluster of its own.
fn check(servers: &Servers, copies: usize) {
    let count = Cell::new(0);
    conformance::check(|| {
        count.set(count.get() + 1);
        let name = format!("check-{}", count.get());
        let builder = NatsEngine::builder(servers.urls(), servers.monitors(), name);
        match copies {
            1 => builder.allow_one_copy().build().unwrap(),
            _ => builder.build().unwrap(),
        }
    });
}

#[test]
fn the_engine_keeps_the_promises_on_one_server() {
    if let Some(servers) = Servers::start(1, SAFE) {
        check(&servers, 1);
    }
}

#[test]
fn the_engine_keeps_the_promises_on_three_servers() {
    if let Some(servers) = Servers::start(3, SAFE) {
        check(&servers, 3);
    }
}
