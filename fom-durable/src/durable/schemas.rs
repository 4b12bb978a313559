//! The schemas that the journal has. A record is written only after the schema that reads it.

use std::{collections::HashMap, sync::Arc};

use fom_journal::{Batch, EntryId};

use crate::durable::Kind;
use fom_protocol::sync::Mutex;
use fom_runtime::{
    __durability::{self as seam, Schema},
    machine::Graph,
};

/// The first entry number of a schema.
const FIRST: u64 = 16;

#[derive(Default)]
pub(crate) struct Schemas(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// Schemas that the journal is known to have.
    kept: HashMap<u64, Arc<Schema>>,
    /// Schemas to put with the next batch.
    wanted: Vec<Arc<Schema>>,
    next: u64,
}

impl Schemas {
    /// Takes the schemas that were found, and the entries that cannot be read. Those entries stay unchanged.
    pub(super) fn new(found: Vec<(EntryId, Schema)>, unread: &[EntryId]) -> Self {
        let ids = found.iter().map(|(id, _)| id).chain(unread);
        let next = ids.map(|id| id.0 + 1).max();
        let kept = found
            .into_iter()
            .map(|(_, schema)| (schema.fingerprint(), Arc::new(schema)))
            .collect();
        Self(Mutex::new(Inner {
            kept,
            wanted: Vec::new(),
            next: next.unwrap_or(FIRST).max(FIRST),
        }))
    }

    /// Returns the schema with this fingerprint.
    pub(super) fn get(&self, fingerprint: u64) -> Option<Arc<Schema>> {
        self.0.lock().kept.get(&fingerprint).cloned()
    }

    /// Notes that a record with this schema is on its way.
    pub(super) fn want(&self, graph: &'static Graph) {
        let fingerprint = seam::fingerprint(graph);
        let mut inner = self.0.lock();
        let is_wanted = inner
            .wanted
            .iter()
            .any(|schema| schema.fingerprint() == fingerprint);
        if !inner.kept.contains_key(&fingerprint) && !is_wanted {
            inner.wanted.push(Arc::new(Schema::of(graph)));
        }
    }

    /// Puts the wanted schemas, before anything else of the batch. Returns them.
    pub(super) fn put(&self, batch: &mut Batch) -> Vec<Arc<Schema>> {
        let mut inner = self.0.lock();
        let wanted = inner.wanted.clone();
        for (place, schema) in wanted.iter().enumerate() {
            batch.put_with(EntryId(inner.next + place as u64), |out| {
                out.push(Kind::Schema as u8);
                out.extend(schema.to_bytes());
            });
            batch.end_group();
        }
        // An entry number is never used again for another schema.
        inner.next += wanted.len() as u64;
        wanted
    }

    /// Notes that the batch with these schemas is committed.
    pub(super) fn committed(&self, put: &[Arc<Schema>]) {
        if put.is_empty() {
            return;
        }
        let mut inner = self.0.lock();
        for schema in put {
            let fingerprint = schema.fingerprint();
            inner
                .wanted
                .retain(|wanted| wanted.fingerprint() != fingerprint);
            inner.kept.insert(fingerprint, Arc::clone(schema));
        }
    }
}
