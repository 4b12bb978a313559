//! A saved layer needs an inner operation that can be saved.
use fom_runtime::prelude::*;

struct Read;

#[fom(operation(Read), transient)]
enum Reading {
    #[phase(start, to(Found))]
    Look,
    #[phase(end)]
    Found,
}

impl ReadingTransitions for Read {
    async fn look(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

struct Guarded {
    request: Read,
}

use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Saved {
    token: u32,
    #[serde(skip, default = "none")]
    request: Read,
}

fn none() -> Read {
    Read
}

#[fom(operation(Saved), around(Read))]
enum Standard {
    #[phase(start, to(Serve))]
    Authorise,
    #[phase(inner(request))]
    Serve { phase: Reading },
}

impl StandardTransitions for Saved {
    async fn authorise(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn main() {}
