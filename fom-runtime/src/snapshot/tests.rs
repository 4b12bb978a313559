//! The content of bodies, and that they are read only through their own schema.

use serde::{Deserialize, Serialize, Serializer};

use crate::{
    operation::{self, Codec, Operation},
    prelude::*,
    snapshot::{Encoded, Meta, RestoreError, Schema, SnapshotError},
};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    number: u64,
    #[serde(serialize_with = "unless_odd")]
    note: Option<u8>,
}

/// Fails for an odd value, so that the operation cannot be saved.
fn unless_odd<S: Serializer>(value: &Option<u8>, out: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(1) => Err(serde::ser::Error::custom("it is odd")),
        value => value.serialize(out),
    }
}

#[fom(operation(Order))]
#[derive(Clone, Debug, PartialEq)]
enum Shop {
    #[phase(start, to(Packing))]
    Received,
    #[phase(to(Sent))]
    Packing { shelf: u16, label: String },
    #[phase(end)]
    Sent,
}

impl ShopTransitions for Order {
    async fn received(&mut self, _: &mut Cx<'_>) -> Result<ShopAfterReceived, BoxError> {
        let label = String::new();
        Ok(ShopAfterReceived::Packing { shelf: 1, label })
    }

    async fn packing(&mut self, _: &mut Cx<'_>, _: ShopInPacking<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn load(schema: &Schema, bytes: &[u8]) -> Result<(Order, Shop), RestoreError> {
    let (order, phase, _) = operation::load(Encoded { schema, bytes })?;
    Ok((order, phase))
}

fn codec() -> Codec<Order> {
    Order::CODEC.unwrap()
}

fn order() -> Order {
    Order {
        number: 7,
        note: None,
    }
}

fn packing(label: &str) -> Shop {
    Shop::Packing {
        shelf: 300,
        label: label.into(),
    }
}

/// A body is appended and has exactly these bytes, because later releases read it.
#[test]
fn what_stands_in_a_body() {
    let mut out = b"before".to_vec();
    (codec().save_body)(&order(), &packing("x"), &mut out).unwrap();
    let body = out.strip_prefix(b"before").unwrap();
    let (fingerprint, rest) = body.split_at(8);
    assert_eq!(
        fingerprint,
        super::schema::fingerprint(Order::GRAPH).to_le_bytes()
    );
    assert_eq!(
        rest,
        b"\x01\x03\xcd\x01\x2c\x02\xa1x\x82\xa6number\x07\xa4note\xc0"
    );
    assert_eq!(
        super::schema::fingerprint(Order::GRAPH),
        0x5be1_d11f_9fb6_961b
    );
}

/// Fields of any length are written and read back, even if their length takes more than one byte.
#[test]
fn long_fields_go_there_and_back() {
    let schema = Schema::of(Order::GRAPH);
    for length in [
        0, 1, 31, 32, 125, 126, 127, 128, 300, 16_380, 16_384, 70_000, 3_000_000,
    ] {
        let mut body = Vec::new();
        let phase = packing(&"x".repeat(length));
        (codec().save_body)(&order(), &phase, &mut body).unwrap();
        let read = load(&schema, &body).unwrap();
        assert_eq!(read, (order(), phase), "{length}");
        assert!(load(&schema, &body[..body.len() - 1]).is_err());
    }
}

/// A failed save leaves nothing behind.
#[test]
fn a_failed_save_leaves_the_bytes_as_they_were() {
    let mut out = b"before".to_vec();
    let order = Order {
        note: Some(1),
        ..order()
    };
    let error = (codec().save_body)(&order, &packing("x"), &mut out).unwrap_err();
    assert!(
        matches!(&error, SnapshotError::Operation(reason) if reason.contains("odd")),
        "{error}"
    );
    assert_eq!(out, b"before");
}

/// A body fits only the schema that it names.
#[test]
fn a_body_is_not_read_through_another_schema() {
    let mut body = Vec::new();
    (codec().save_body)(&order(), &Shop::Received, &mut body).unwrap();
    let schema = Schema::of(Order::GRAPH);
    assert_eq!(
        schema.fingerprint(),
        super::schema::fingerprint(Order::GRAPH)
    );
    let again = Schema::from_bytes(&schema.to_bytes()).unwrap();
    assert_eq!(again, schema);
    assert_eq!(load(&again, &body).unwrap().1, Shop::Received);

    let mut other = schema.clone();
    other.version = 2;
    let other = Schema::from_bytes(&other.to_bytes()).unwrap();
    let error = load(&other, &body).unwrap_err();
    assert_eq!(error, RestoreError::Damaged);
}

/// A body with its schema is a self-contained snapshot.
#[test]
fn a_body_and_its_schema_are_a_snapshot() {
    let mut body = Vec::new();
    (codec().save_body)(&order(), &packing("x"), &mut body).unwrap();
    let meta = Meta {
        id: 5,
        attempt: 2,
        left: Some(9),
        resumed: false,
    };
    let snapshot = Snapshot::of(&Schema::bytes_of(Order::GRAPH), &body, meta).unwrap();
    let snapshot = Snapshot::from_bytes(snapshot.as_bytes()).unwrap();
    assert_eq!(snapshot.meta().unwrap(), meta);
    assert_eq!(Order::restore(&snapshot).unwrap(), (order(), packing("x")));
}

#[test]
fn a_kind_of_the_quarantine_has_its_serialized_name() {
    use crate::snapshot::QuarantineKind as Kind;
    for kind in [
        Kind::Damaged,
        Kind::Unreadable,
        Kind::Failed,
        Kind::NoReceiver,
        Kind::Uncommitted,
    ] {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
    }
}
