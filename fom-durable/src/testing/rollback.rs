//! Whether the release before can read what this release writes: the samples, read with the names of earlier files.
//!
//! The code of an earlier release is not here. Its files have the names that it knows: of its phases and their fields,
//! and of the fields of its operation. It refuses a name that it does not know.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use fom_runtime::snapshot::Saved;
use serde::{
    Deserialize, Deserializer,
    de::{EnumAccess, IgnoredAny, MapAccess, SeqAccess, VariantAccess, Visitor},
};

/// Why the release before cannot read a state that this release writes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OneWay {
    /// The phase of the state in this release.
    pub phase: String,
    /// The version of the machine in the release before.
    pub version: u32,
    /// The reason.
    pub reason: OneWayReason,
}

/// What the release before does not know, or does not get.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OneWayReason {
    /// The version of the machine is higher.
    #[error("it refuses all that version {0} saves")]
    NewerVersion(u32),
    /// It does not have the phase.
    #[error("it does not have the phase")]
    Phase,
    /// It does not have this field of the phase.
    #[error(
        "it does not have the field `{0}` of the phase; with `unknown = \"keep\"` it carries the field along"
    )]
    Field(String),
    /// It has a field of the phase that this release does not write.
    #[error("it needs the field `{0}` of the phase, unless it has a default for it")]
    MissingField(String),
    /// It does not have this field of the operation.
    #[error("it does not have the field `{0}` of the operation{how}", how = carried(.0))]
    OperationField(String),
    /// It has a field of the operation that this release does not write.
    #[error("it needs the field `{0}` of the operation, unless it has a default for it")]
    MissingOperationField(String),
}

/// Returns what the release before can do about a field of the operation. A field inside of another one has no remedy.
fn carried(field: &str) -> &'static str {
    if field.contains('.') {
        ""
    } else {
        "; with `unknown = \"keep\"` it carries the field along"
    }
}

impl fmt::Display for OneWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            phase,
            version,
            reason,
        } = self;
        write!(f, "phase `{phase}`, back to version {version}: {reason}")
    }
}

/// The names that the release before knows.
#[derive(Default)]
struct Known {
    version: u32,
    /// The fields of each phase.
    phases: BTreeMap<String, BTreeSet<String>>,
    operation: Names,
}

/// Compares the states of this release with those of the release before: the ones with the highest earlier version.
pub(super) fn one_way(today: &[Saved], earlier: &[Saved]) -> Vec<OneWay> {
    let Some(version) = earlier.iter().map(Saved::version).max() else {
        return Vec::new();
    };
    let mut known = Known {
        version,
        ..Known::default()
    };
    for saved in earlier.iter().filter(|saved| saved.version() == version) {
        let fields = known.phases.entry(saved.phase().to_owned()).or_default();
        fields.extend(saved.fields().map(str::to_owned));
        known.operation.add(Names::of(saved));
    }
    let mut found = Vec::new();
    for saved in today {
        for reason in known.refuses(saved) {
            let one = OneWay {
                phase: saved.phase().to_owned(),
                version,
                reason,
            };
            if !found.contains(&one) {
                found.push(one);
            }
        }
    }
    found
}

/// Returns a hash of the names in the operation. It tells two releases apart that differ only there.
pub(super) fn operation_fingerprint(saved: &Saved) -> u64 {
    Names::of(saved).hash(0xcbf2_9ce4_8422_2325)
}

impl Known {
    /// Returns why a release with these names refuses a state.
    fn refuses(&self, saved: &Saved) -> Vec<OneWayReason> {
        if saved.version() > self.version {
            return vec![OneWayReason::NewerVersion(saved.version())];
        }
        let Some(fields) = self.phases.get(saved.phase()) else {
            return vec![OneWayReason::Phase];
        };
        let today: BTreeSet<String> = saved.fields().map(str::to_owned).collect();
        let operation = Names::of(saved);
        let more = today.difference(fields).cloned();
        let less = fields.difference(&today).cloned();
        let more_of_operation = operation.beyond(&self.operation).into_iter();
        let less_of_operation = self.operation.beyond(&operation).into_iter();
        more.map(OneWayReason::Field)
            .chain(less.map(OneWayReason::MissingField))
            .chain(more_of_operation.map(OneWayReason::OperationField))
            .chain(less_of_operation.map(OneWayReason::MissingOperationField))
            .collect()
    }
}

/// The names in a value: the keys of its maps, with the names in their values.
#[derive(Clone, Default)]
struct Names(BTreeMap<String, Names>);

impl Names {
    fn of(saved: &Saved) -> Self {
        saved.operation().unwrap_or_default()
    }

    fn add(&mut self, other: Self) {
        for (name, inner) in other.0 {
            self.0.entry(name).or_default().add(inner);
        }
    }

    /// Returns the paths that `other` does not have, only the outermost of them.
    fn beyond(&self, other: &Self) -> Vec<String> {
        let mut paths = Vec::new();
        for (name, inner) in &self.0 {
            match other.0.get(name) {
                None => paths.push(name.clone()),
                // A value without names, such as `None`, says nothing of the names in it.
                Some(known) if known.0.is_empty() => {}
                Some(known) => {
                    let inner = inner.beyond(known).into_iter();
                    paths.extend(inner.map(|path| format!("{name}.{path}")));
                }
            }
        }
        paths
    }

    /// FNV-1a, which is the same in every release of Rust.
    fn hash(&self, hash: u64) -> u64 {
        let add = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        self.0.iter().fold(hash, |hash, (name, inner)| {
            let hash = add(name.bytes().fold(hash, add), 0xff);
            add(inner.hash(hash), 0xfe)
        })
    }
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

macro_rules! nothing {
    ($($method:ident($ty:ty))*) => {
        $(fn $method<E>(self, _: $ty) -> Result<Names, E> {
            Ok(Names::default())
        })*
    };
}

impl<'de> Visitor<'de> for Reader {
    type Value = Names;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    nothing! {
        visit_bool(bool) visit_i64(i64) visit_i128(i128) visit_u64(u64) visit_u128(u128)
        visit_f64(f64) visit_str(&str) visit_bytes(&[u8])
    }

    fn visit_none<E>(self) -> Result<Names, E> {
        Ok(Names::default())
    }

    fn visit_unit<E>(self) -> Result<Names, E> {
        Ok(Names::default())
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Names, D::Error> {
        Names::deserialize(inner)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Names, D::Error> {
        Names::deserialize(inner)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Names, A::Error> {
        let mut all = Names::default();
        while let Some(inner) = list.next_element()? {
            all.add(inner);
        }
        Ok(all)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Names, A::Error> {
        let mut all = Names::default();
        while let Some((Name(name), inner)) = map.next_entry::<Name, Names>()? {
            match name {
                Some(name) => all.0.entry(name).or_default().add(inner),
                None => all.add(inner),
            }
        }
        Ok(all)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<Names, A::Error> {
        let (IgnoredAny, variant) = data.variant()?;
        variant.newtype_variant()
    }
}

/// A key of a map, if it is a name.
struct Name(Option<String>);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Key {
            Name(String),
            Other(IgnoredAny),
        }
        Ok(Self(match Key::deserialize(deserializer)? {
            Key::Name(name) => Some(name),
            Key::Other(_) => None,
        }))
    }
}
