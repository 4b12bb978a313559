//! Snapshots of the first format, with all names in each of them. They are still read, as version 1.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::snapshot::{Meta, body::Parts, bytes::Bytes};

pub(super) const MAGIC: &[u8; 4] = b"FOM1";

#[derive(Deserialize)]
pub(super) struct Record<'a> {
    machine: &'a str,
    operation_type: &'a str,
    pub(super) meta: Meta,
    phase: &'a str,
    #[serde(borrow)]
    fields: BTreeMap<&'a str, Bytes<'a>>,
    #[serde(borrow)]
    operation: Bytes<'a>,
}

impl<'a> Record<'a> {
    pub(super) fn parts(&self) -> Parts<'a> {
        Parts {
            machine: self.machine,
            operation_type: self.operation_type,
            version: 1,
            phase: self.phase,
            fields: self
                .fields
                .iter()
                .map(|(name, value)| (*name, value.0))
                .collect(),
            operation: self.operation.0,
        }
    }
}
