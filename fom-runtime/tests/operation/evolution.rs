//! A changed release reads what the release before saved as what it is, or refuses it, and never reads it as something
//! else.

use std::collections::BTreeMap;

use fom_runtime::{prelude::*, snapshot::RestoreError};
use serde::{Deserialize, Serialize};

use crate::kit::release::release;
use crate::record::Record;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Address {
    street: String,
    number: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Media {
    Voice,
    Video { high: u32, wide: u32 },
    Both(u32, u32),
}

release!(before() struct {
    pub(super) callee: String,
    pub(super) tries: u32,
    pub(super) address: Address,
    pub(super) media: Vec<Media>,
} to(Ring, Talk, Over) {
    #[phase(end)]
    Ring { endpoint: String, count: u64, most: u64 },
    #[phase(end)]
    Talk { media: Media },
    #[phase(end)]
    Over,
});

fn call() -> before::Call {
    before::Call {
        callee: "ada".into(),
        tries: 3,
        address: Address {
            street: "Ring".into(),
            number: 7,
        },
        media: vec![
            Media::Voice,
            Media::Video { high: 1, wide: 2 },
            Media::Both(3, 4),
        ],
    }
}

fn ring() -> before::Route {
    before::Route::Ring {
        endpoint: "10.0.0.7".into(),
        count: 1,
        most: 2,
    }
}

fn talk() -> before::Route {
    let media = Media::Video { high: 1, wide: 2 };
    before::Route::Talk { media }
}

/// Returns what a later release reads. That is the same with a schema that knows no other phase.
fn read<O: Persistent<Phase: PartialEq + std::fmt::Debug> + PartialEq + std::fmt::Debug>(
    phase: before::Route,
) -> Result<(O, O::Phase), RestoreError> {
    let saved = call().snapshot(&phase).unwrap();
    let record = Record::of(&saved);
    let read = O::restore(&saved);
    let other = Snapshot::from_bytes(record.second(1)).unwrap();
    assert_eq!(O::restore(&other), read);
    read
}

/// The release as it was, except for the operation's fields.
macro_rules! with_fields {
    ($name:ident { $($fields:tt)* }) => {
        release!($name() struct { $($fields)* } to(Ring, Talk, Over) {
            #[phase(end)]
            Ring { endpoint: String, count: u64, most: u64 },
            #[phase(end)]
            Talk { media: Media },
            #[phase(end)]
            Over,
        });
    };
}

/// The release as it was, except for the phases.
macro_rules! with_phases {
    ($name:ident to($($to:ident),*) { $($phases:tt)* }) => {
        release!($name() struct {
            pub(super) callee: String,
            pub(super) tries: u32,
            pub(super) address: Address,
            pub(super) media: Vec<Media>,
        } to($($to),*) { $($phases)* });
    };
}

fn operation_misses(error: &RestoreError, words: &str) -> bool {
    matches!(error, RestoreError::Operation { reason, .. } if reason.contains(words))
}

with_fields!(appended {
    pub(super) callee: String,
    pub(super) tries: u32,
    pub(super) address: Address,
    pub(super) media: Vec<Media>,
    #[serde(default)]
    pub(super) priority: u8,
});
with_fields!(inserted {
    #[serde(default)]
    pub(super) caller: String,
    pub(super) callee: String,
    #[serde(default)]
    pub(super) most: u32,
    pub(super) tries: u32,
    pub(super) address: Address,
    pub(super) media: Vec<Media>,
});
with_fields!(needed {
    pub(super) caller: String,
    pub(super) callee: String,
    pub(super) tries: u32,
    pub(super) address: Address,
    pub(super) media: Vec<Media>,
});
with_fields!(reordered {
    pub(super) media: Vec<Media>,
    pub(super) tries: u32,
    pub(super) callee: String,
    pub(super) address: Address,
});

/// A new field has its default, wherever the field stands. Without a default the operation is refused.
#[test]
fn fields_of_the_operation_are_added() {
    let (new, phase) = read::<appended::Call>(ring()).unwrap();
    assert_eq!(
        (new.callee.as_str(), new.tries, new.priority),
        ("ada", 3, 0)
    );
    let (endpoint, count, most) = ("10.0.0.7".into(), 1, 2);
    assert_eq!(
        phase,
        appended::Route::Ring {
            endpoint,
            count,
            most
        }
    );
    let (new, _) = read::<inserted::Call>(ring()).unwrap();
    assert_eq!(
        (
            new.caller.as_str(),
            new.callee.as_str(),
            new.most,
            new.tries
        ),
        ("", "ada", 0, 3)
    );
    let error = read::<needed::Call>(ring()).unwrap_err();
    assert!(
        operation_misses(&error, "missing field `caller`"),
        "{error}"
    );
    let (new, _) = read::<reordered::Call>(ring()).unwrap();
    assert_eq!((new.callee.as_str(), new.tries), ("ada", 3));
    assert_eq!((new.address, new.media), (call().address, call().media));
}

with_fields!(removed {
    pub(super) callee: String,
    pub(super) address: Address,
    pub(super) media: Vec<Media>,
});
with_fields!(renamed {
    pub(super) callee: String,
    #[serde(alias = "tries")]
    pub(super) attempts: u32,
    pub(super) address: Address,
    pub(super) media: Vec<Media>,
});

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Street {
    street: String,
}

with_fields!(removed_inside {
    pub(super) callee: String,
    pub(super) tries: u32,
    pub(super) address: Street,
    pub(super) media: Vec<Media>,
});

/// A removed field is never dropped silently, however deep it is: a migration must say so. A renamed field is found by
/// serde's `alias`.
#[test]
fn fields_of_the_operation_are_removed() {
    let lost = |field: &str| RestoreError::UnknownOperationField {
        operation: "Call",
        field: field.into(),
    };
    assert_eq!(read::<removed::Call>(ring()).unwrap_err(), lost("tries"));
    let error = read::<removed_inside::Call>(ring()).unwrap_err();
    assert_eq!(error, lost("address.number"));
    assert!(
        error.to_string().contains("take it out in a migration"),
        "{error}"
    );
    let (new, _) = read::<renamed::Call>(ring()).unwrap();
    assert_eq!(new.attempts, 3);
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Shuffled {
    Both(u32, u32),
    Text,
    Video { wide: u32, high: u32 },
    Voice,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Fewer {
    Voice,
    Video { high: u32, wide: u32 },
}

with_fields!(wider {
    pub(super) callee: String,
    pub(super) tries: u64,
    pub(super) address: BTreeMap<String, Number>,
    pub(super) media: Vec<Shuffled>,
});
with_fields!(narrower {
    pub(super) callee: String,
    pub(super) tries: bool,
    pub(super) address: Address,
    pub(super) media: Vec<Media>,
});
with_fields!(fewer {
    pub(super) callee: String,
    pub(super) tries: u32,
    pub(super) address: Address,
    pub(super) media: Vec<Fewer>,
});
with_fields!(by_position {
    pub(super) callee: String,
    pub(super) tries: u32,
    pub(super) address: (String, u32),
    pub(super) media: Vec<Media>,
});

/// A value in the map that an address has become.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Number {
    Is(u32),
    Named(String),
}

/// If a type has changed, a saved value is read where it is the same value, and refused elsewhere. Variants are found
/// by name.
#[test]
fn types_in_the_operation_change() {
    let (new, _) = read::<wider::Call>(ring()).unwrap();
    assert_eq!(new.tries, 3);
    let street = ("street".to_owned(), Number::Named("Ring".into()));
    let address = BTreeMap::from([street, ("number".to_owned(), Number::Is(7))]);
    assert_eq!(new.address, address);
    assert_eq!(
        new.media,
        [
            Shuffled::Voice,
            Shuffled::Video { high: 1, wide: 2 },
            Shuffled::Both(3, 4)
        ]
    );
    let error = read::<narrower::Call>(ring()).unwrap_err();
    assert!(operation_misses(&error, "expected a boolean"), "{error}");
    let error = read::<fewer::Call>(ring()).unwrap_err();
    assert!(
        operation_misses(&error, "unknown variant `Both`"),
        "{error}"
    );
    let error = read::<by_position::Call>(ring()).unwrap_err();
    assert!(operation_misses(&error, "expected a tuple"), "{error}");
}

with_phases!(phase_inserted to(Ask, Ring, Talk, Over) {
    #[phase(end)]
    Ask { endpoint: String, count: u64, most: u64 },
    #[phase(end)]
    Ring { endpoint: String, count: u64, most: u64 },
    #[phase(end)]
    Talk { media: Media },
    #[phase(end)]
    Over,
});
with_phases!(phases_reordered to(Over, Talk, Ring) {
    #[phase(end)]
    Over,
    #[phase(end)]
    Talk { media: Media },
    #[phase(end)]
    Ring { most: u64, count: u64, endpoint: String },
});
with_phases!(phase_renamed to(Alert, Talk, Over) {
    #[phase(end)]
    Alert { endpoint: String, count: u64, most: u64 },
    #[phase(end)]
    Talk { media: Media },
    #[phase(end)]
    Over,
});
with_phases!(phase_renamed_well to(Alert, Talk, Over) {
    #[phase(end, was = "Rang", was = "Ring")]
    Alert { endpoint: String, count: u64, most: u64 },
    #[phase(end)]
    Talk { media: Media },
    #[phase(end)]
    Over,
});
with_phases!(phase_dropped to(Talk, Over) {
    #[phase(end)]
    Talk { media: Media },
    #[phase(end)]
    Over,
});

/// Phases are found by name, wherever they stand. A phase that is gone is refused; the phases that are still there are
/// read.
#[test]
fn phases_change() {
    let endpoint = || "10.0.0.7".to_owned();
    let (_, phase) = read::<phase_inserted::Call>(ring()).unwrap();
    assert!(
        matches!(phase, phase_inserted::Route::Ring { .. }),
        "{phase:?}"
    );
    let (_, phase) = read::<phases_reordered::Call>(ring()).unwrap();
    let (endpoint_, count, most) = (endpoint(), 1, 2);
    assert_eq!(
        phase,
        phases_reordered::Route::Ring {
            endpoint: endpoint_,
            count,
            most
        }
    );
    let gone = RestoreError::UnknownPhase {
        phase: "Ring".into(),
        machine: "Route",
    };
    assert_eq!(read::<phase_renamed::Call>(ring()).unwrap_err(), gone);
    assert!(
        gone.to_string().contains("write `was = \"Ring\"`"),
        "{gone}"
    );
    let (_, phase) = read::<phase_renamed_well::Call>(ring()).unwrap();
    let endpoint_ = endpoint();
    assert_eq!(
        phase,
        phase_renamed_well::Route::Alert {
            endpoint: endpoint_,
            count,
            most
        }
    );
    assert_eq!(read::<phase_dropped::Call>(ring()).unwrap_err(), gone);
    let (_, phase) = read::<phase_dropped::Call>(talk()).unwrap();
    let media = Media::Video { high: 1, wide: 2 };
    assert_eq!(phase, phase_dropped::Route::Talk { media });
    let (call_again, _) = read::<phase_dropped::Call>(before::Route::Over).unwrap();
    assert_eq!(call_again.media, call().media);
}

with_phases!(data_added to(Ring, Talk, Over) {
    #[phase(end)]
    Ring { endpoint: String, least: u64, count: u64, most: u64 },
    #[phase(end)]
    Talk { media: Media },
    #[phase(end)]
    Over,
});
with_phases!(data_defaulted to(Ring, Talk, Over) {
    #[phase(end)]
    Ring {
        endpoint: String,
        #[phase(default)]
        least: u64,
        count: u64,
        most: u64,
        /// The others.
        #[phase(default)]
        others: Vec<String>,
    },
    #[phase(end)]
    Talk { media: Media },
    #[phase(end)]
    Over,
});
with_phases!(data_removed to(Ring, Talk, Over) {
    #[phase(end)]
    Ring { endpoint: String, most: u64 },
    #[phase(end)]
    Talk { media: Media },
    #[phase(end)]
    Over,
});
with_phases!(data_of_other_types to(Ring, Talk, Over) {
    #[phase(end)]
    Ring { endpoint: u64, count: u64, most: u64 },
    #[phase(end)]
    Talk { media: Shuffled },
    #[phase(end)]
    Over,
});

/// The data of phases are found by name. New data need a default, removed data are never dropped silently, and data
/// that do not fit are refused.
#[test]
fn data_of_phases_change() {
    let error = read::<data_added::Call>(ring()).unwrap_err();
    assert_eq!(error, RestoreError::MissingField { field: "least" });
    assert!(error.to_string().contains("#[phase(default)]"), "{error}");
    let (_, phase) = read::<data_defaulted::Call>(ring()).unwrap();
    let (endpoint, least, count, most) = ("10.0.0.7".into(), 0, 1, 2);
    let others = Vec::new();
    assert_eq!(
        phase,
        data_defaulted::Route::Ring {
            endpoint,
            least,
            count,
            most,
            others
        }
    );
    assert_eq!(
        read::<data_removed::Call>(ring()).unwrap_err(),
        RestoreError::UnknownField {
            phase: "Ring".into(),
            field: "count".into()
        }
    );
    let error = read::<data_of_other_types::Call>(ring()).unwrap_err();
    assert!(
        matches!(
            error,
            RestoreError::Field {
                field: "endpoint",
                of: "u64",
                ..
            }
        ),
        "{error}"
    );
    let (_, phase) = read::<data_of_other_types::Call>(talk()).unwrap();
    let media = Shuffled::Video { wide: 2, high: 1 };
    assert_eq!(phase, data_of_other_types::Route::Talk { media });
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Lenient {
    street: String,
    #[serde(skip)]
    cache: Option<u8>,
    #[serde(flatten)]
    rest: Flattened,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Flattened {
    #[serde(default)]
    house: u32,
}

with_fields!(flattened {
    pub(super) callee: String,
    pub(super) tries: u32,
    pub(super) address: Lenient,
    pub(super) media: Vec<Media>,
});

/// The one hole, which the documentation names: serde reads some values through a buffer of its own, here for
/// `flatten`, and skips what it does not know.
#[test]
fn what_serde_buffers_is_not_watched() {
    let (new, _) = read::<flattened::Call>(ring()).unwrap();
    assert_eq!(new.address.street, "Ring");
    assert_eq!(new.address.rest.house, 0);
}

release!(after() struct {
    pub(super) callee: Option<String>,
    pub(super) tries: u64,
    pub(super) address: Address,
    pub(super) media: Vec<Media>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) caller: Option<String>,
} to(Ring, Talk, Park, Over) {
    #[phase(end)]
    Park,
    #[phase(end)]
    Ring { most: u64, count: u64, endpoint: String, #[phase(default)] loud: bool },
    #[phase(end)]
    Talk { media: Media },
    #[phase(end)]
    Over,
});

/// After a rollback, the release before reads what it knows, and refuses the rest by name.
#[test]
fn a_release_is_taken_back() {
    let call = |callee: Option<&str>, tries, caller: Option<&str>| after::Call {
        callee: callee.map(str::to_owned),
        tries,
        address: call().address,
        media: call().media,
        caller: caller.map(str::to_owned),
    };
    let back = |call: after::Call, phase| before::Call::restore(&call.snapshot(&phase).unwrap());
    let talk = || after::Route::Talk {
        media: Media::Voice,
    };
    let (read, phase) = back(call(Some("ada"), 3, None), talk()).unwrap();
    assert_eq!((read.callee.as_str(), read.tries), ("ada", 3));
    assert!(matches!(phase, before::Route::Talk { .. }));

    let refused = |call, phase| back(call, phase).unwrap_err().to_string();
    assert!(refused(call(None, 3, None), talk()).contains("no `Call`"));
    assert!(refused(call(Some("ada"), u64::MAX, None), talk()).contains("no `Call`"));
    let caller = refused(call(Some("ada"), 3, Some("bob")), talk());
    assert!(caller.contains("a field `caller`"), "{caller}");
    let park = refused(call(Some("ada"), 3, None), after::Route::Park);
    assert!(park.contains("in phase `Park`"), "{park}");
    let loud = after::Route::Ring {
        most: 2,
        count: 1,
        endpoint: String::new(),
        loud: true,
    };
    let loud = refused(call(Some("ada"), 3, None), loud);
    assert!(loud.contains("a field `loud`"), "{loud}");
}
