//! A changed type, from any type to any other: a saved value is read as the same value, or refused. Random values of
//! each type are read as each of the others, in the operation and in the data of a phase. Types that serde reads
//! through its own buffer (`flatten`, `untagged`, `tag` without `content`) are not among them: the book says which
//! changes go unseen there.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    fmt::Debug,
};

use fom_runtime::{prelude::*, snapshot::RestoreError};
use proptest::{collection, prelude::*};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::Value;

trait Data: Serialize + DeserializeOwned + Debug + Send + 'static {}
impl<T: Serialize + DeserializeOwned + Debug + Send + 'static> Data for T {}

/// One name for all types: a release in which `T` is another type.
#[derive(Serialize, Deserialize)]
struct Job<T> {
    value: T,
}

#[fom(operation("Job<T>"))]
enum Work<T: Data> {
    #[phase(start, sync, to(Hold))]
    Begin,
    #[phase(end)]
    Hold { value: T },
}

impl<T: Data> WorkTransitions<T> for Job<T> {
    fn begin(&mut self, _: &mut Cx<'_>) -> Result<WorkAfterBegin<T>, BoxError> {
        Err("it is never run".into())
    }
}

/// Bytes as serde has them.
#[derive(Clone, Debug)]
struct Bytes(Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Bytes;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.to_vec()))
            }
        }
        input.deserialize_bytes(Visitor)
    }
}

macro_rules! types {
    ($($(#[$attribute:meta])* $kind:ident $name:ident $body:tt)*) => {
        $(types!(@ $kind [#[derive(Clone, Debug, Serialize, Deserialize)] $(#[$attribute])*] $name $body);)*
    };
    (@ tuple [$($attributes:tt)*] $name:ident $body:tt) => { $($attributes)* struct $name $body; };
    (@ $kind:ident [$($attributes:tt)*] $name:ident $body:tt) => { $($attributes)* $kind $name $body };
}

types! {
    #[derive(Default)]
    struct Unit {}
    tuple Newtype(u32)
    tuple Pair(u32, u32)
    struct Size { high: u32, wide: u32 }
    struct Swapped { wide: u32, high: u32 }
    struct More { high: u32, #[serde(default)] deep: u32, wide: u32, #[serde(default)] name: String }
    struct Less { high: u32 }
    struct Renamed { #[serde(rename = "high")] tall: u32, #[serde(alias = "wide")] broad: u32 }
    struct Skipping { high: u32, wide: u32, #[serde(skip)] _cache: u32 }
    struct Sparse { high: u32, #[serde(default, skip_serializing_if = "Option::is_none")] wide: Option<u32> }
    struct Nested { size: Size, way: Way, all: Vec<Size> }
    struct NestedMore { all: Vec<More>, way: WayMore, size: Swapped }
    enum Way { Left, Right(u32), Up(u32, u32), Down { high: u32, wide: u32 } }
    enum WayMore { Ahead, Down { wide: u32, high: u32 }, Left, Back(u32), Right(u32), Up(u32, u32) }
    enum WayLess { Left, Down { high: u32 } }
    enum WayRenamed { #[serde(rename = "Left")] Port, #[serde(alias = "Right")] Starboard(u32) }
    #[serde(transparent)]
    struct Clear { inner: Size }
    #[serde(deny_unknown_fields)]
    struct Denying { high: u32, #[serde(default)] wide: u32 }
    #[serde(tag = "kind", content = "of")]
    enum Adjacent { Left, Right(u32), Up(u32, u32), Down { high: u32, wide: u32 } }
    struct Text { high: String, wide: u32 }
}

type Read = fn(&Snapshot, &Snapshot) -> [Result<Value, RestoreError>; 2];

/// A type: how a value of it is saved (in the operation, and in the data of a phase), and what it reads.
struct Kind {
    name: &'static str,
    values: BoxedStrategy<([Snapshot; 2], Value)>,
    read: Read,
}

fn kind<T: Data + Clone>(name: &'static str, values: impl Strategy<Value = T> + 'static) -> Kind {
    let save = |value: T| {
        let of = |value: &T| value.clone();
        let job = Job { value: of(&value) };
        let in_operation = job.snapshot(&Work::Begin).unwrap();
        let (data, unit) = (Work::Hold { value: of(&value) }, Job { value: of(&value) });
        let in_phase = unit.snapshot(&data).unwrap();
        ([in_operation, in_phase], shown(&value))
    };
    let read: Read = |in_operation, in_phase| {
        let first = Job::<T>::restore(in_operation).map(|(job, _)| shown(&job.value));
        let second = Job::<T>::restore(in_phase).map(|(job, phase)| match phase {
            Work::Begin => panic!("it was in another phase"),
            Work::Hold { value } => {
                assert_eq!(shown(&job.value), shown(&value));
                shown(&value)
            }
        });
        [first, second]
    };
    let values = values.prop_map(save).boxed();
    Kind { name, values, read }
}

/// What a value means without its type: a number as it is written, a newtype as its content, nothing as null.
fn shown<T: Serialize + Debug>(value: &T) -> Value {
    fn plain(value: Value) -> Value {
        match value {
            Value::Number(number) => Value::String(number.to_string()),
            Value::Array(all) => Value::Array(all.into_iter().map(plain).collect()),
            Value::Object(all) => Value::Object(
                all.into_iter()
                    .map(|(name, value)| (name, plain(value)))
                    .collect(),
            ),
            other => other,
        }
    }
    // Only a number can be too large for JSON; its text stands for it.
    serde_json::to_value(value).map_or_else(|_| Value::String(format!("{value:?}")), plain)
}

/// Whether `read` was read from `saved`: the same value, except for missing parts, which have their default.
fn is_read_of(read: &Value, saved: &Value) -> bool {
    match (read, saved) {
        (Value::Object(read), Value::Object(saved)) => {
            let all = saved
                .iter()
                .all(|(name, value)| read.get(name).is_some_and(|read| is_read_of(read, value)));
            let known = |name: &str| saved.contains_key(name);
            let mut new = read.iter().filter(|(name, _)| !known(name));
            all && new.all(|(_, value)| is_default(value))
        }
        (Value::Array(read), Value::Array(saved)) => {
            read.len() == saved.len()
                && read
                    .iter()
                    .zip(saved)
                    .all(|(read, saved)| is_read_of(read, saved))
        }
        // A saved value without elements or fields says nothing: what is read must be the default.
        (Value::Null | Value::Object(_), Value::Array(saved)) if saved.is_empty() => {
            is_default(read)
        }
        (Value::Array(read), Value::Null) => read.is_empty(),
        (read, saved) => read == saved,
    }
}

fn is_default(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty() || text == "0",
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn small() -> impl Strategy<Value = u32> + Clone {
    prop_oneof![0u32..4, any::<u32>()]
}

fn word() -> impl Strategy<Value = String> + Clone {
    prop_oneof![
        Just("Left".to_owned()),
        Just("Up".to_owned()),
        Just("high".to_owned()),
        Just(String::new()),
        "[a-z0-9é]{0,3}"
    ]
}

fn size() -> impl Strategy<Value = Size> + Clone {
    (small(), small()).prop_map(|(high, wide)| Size { high, wide })
}

fn way() -> impl Strategy<Value = Way> + Clone {
    prop_oneof![
        Just(Way::Left),
        small().prop_map(Way::Right),
        (small(), small()).prop_map(|(up, by)| Way::Up(up, by)),
        (small(), small()).prop_map(|(high, wide)| Way::Down { high, wide }),
    ]
}

fn kinds() -> Vec<Kind> {
    macro_rules! all {
        ($($ty:ty: $values:expr;)*) => { vec![$(kind::<$ty>(stringify!($ty), $values)),*] };
    }
    all! {
        (): Just(());
        bool: any::<bool>();
        u8: any::<u8>();
        i8: any::<i8>();
        u32: small();
        i64: prop_oneof![-3i64..300, any::<i64>()];
        u64: prop_oneof![0u64..300, any::<u64>()];
        f32: prop_oneof![Just(2.0f32), Just(0.1f32), -4.0f32..4.0];
        f64: prop_oneof![Just(2.0f64), Just(0.1f64), -4.0f64..4.0];
        char: any::<char>();
        String: word();
        Cow<'static, str>: word().prop_map(Cow::Owned);
        Option<u32>: proptest::option::of(small());
        Option<String>: proptest::option::of(word());
        Vec<u8>: collection::vec(any::<u8>(), 0..4);
        Vec<u32>: collection::vec(small(), 0..4);
        Vec<String>: collection::vec(word(), 0..3);
        Bytes: collection::vec(any::<u8>(), 0..20).prop_map(Bytes);
        (u32, u32): (small(), small());
        (u32, String): (small(), word());
        [u32; 2]: [small(), small()];
        BTreeMap<String, u32>: collection::btree_map(word(), small(), 0..3);
        BTreeMap<u32, u32>: collection::btree_map(small(), small(), 0..3);
        HashMap<String, u32>: collection::hash_map(word(), small(), 0..3);
        Unit: Just(Unit {});
        Newtype: small().prop_map(Newtype);
        Pair: (small(), small()).prop_map(|(one, two)| Pair(one, two));
        Size: size();
        Box<Size>: size().prop_map(Box::new);
        Option<Size>: proptest::option::of(size());
        Vec<Size>: collection::vec(size(), 0..3);
        Swapped: size().prop_map(|Size { high, wide }| Swapped { wide, high });
        More: (size(), small(), word())
            .prop_map(|(Size { high, wide }, deep, name)| More { high, deep, wide, name });
        Less: small().prop_map(|high| Less { high });
        Skipping: size().prop_map(|Size { high, wide }| Skipping { high, wide, _cache: 0 });
        Sparse: (small(), proptest::option::of(small())).prop_map(|(high, wide)| Sparse { high, wide });
        Nested: (size(), way(), collection::vec(size(), 0..3))
            .prop_map(|(size, way, all)| Nested { size, way, all });
        Way: way();
        WayLess: prop_oneof![Just(WayLess::Left), small().prop_map(|high| WayLess::Down { high })];
        WayMore: prop_oneof![Just(WayMore::Ahead), small().prop_map(WayMore::Back)];
        Clear: size().prop_map(|inner| Clear { inner });
        Denying: size().prop_map(|Size { high, wide }| Denying { high, wide });
        Adjacent: prop_oneof![
            Just(Adjacent::Left),
            small().prop_map(Adjacent::Right),
            (small(), small()).prop_map(|(up, by)| Adjacent::Up(up, by)),
            size().prop_map(|Size { high, wide }| Adjacent::Down { high, wide })
        ];
        Text: (word(), small()).prop_map(|(high, wide)| Text { high, wide });
        NestedMore: (size(), small()).prop_map(|(Size { high, wide }, back)| NestedMore {
            all: Vec::new(), way: WayMore::Back(back), size: Swapped { wide, high }
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(16) })]

    /// Each value of each type, read as each of the types. As its own type it is read; as another it is the same, or
    /// refused.
    #[test]
    fn a_changed_type_never_reads_another_value(
        saved in kinds().into_iter().map(|kind| kind.values).collect::<Vec<_>>()
    ) {
        let kinds = kinds();
        for (from, ([in_operation, in_phase], value)) in kinds.iter().zip(&saved) {
            for to in &kinds {
                for read in (to.read)(in_operation, in_phase) {
                    match read {
                        Ok(read) => prop_assert!(
                            is_read_of(&read, value),
                            "{} {value} is read as {} {read}", from.name, to.name
                        ),
                        Err(error) => {
                            prop_assert!(from.name != to.name, "{} {value}: {error}", from.name);
                            prop_assert!(
                                matches!(
                                    error,
                                    RestoreError::Operation { .. }
                                        | RestoreError::UnknownOperationField { .. }
                                        | RestoreError::Field { .. }
                                ),
                                "{error}"
                            );
                        }
                    }
                }
            }
        }
    }
}

/// A name given by an attribute is read, in both directions as far as the attributes say.
#[test]
fn names_that_attributes_give_are_the_names() {
    fn read<T: Data, U: Data>(value: T) -> Result<Value, RestoreError> {
        let saved = Job { value }.snapshot(&Work::Begin).unwrap();
        Job::<U>::restore(&saved).map(|(job, _)| shown(&job.value))
    }
    let size = || Size { high: 1, wide: 2 };
    let renamed = read::<_, Renamed>(size()).unwrap();
    assert_eq!(renamed.to_string(), r#"{"broad":"2","high":"1"}"#);
    let (tall, broad) = (1, 2);
    let error = read::<_, Size>(Renamed { tall, broad }).unwrap_err();
    let field = "value.broad".to_owned();
    let operation = "Job<T>";
    assert_eq!(
        error,
        RestoreError::UnknownOperationField { operation, field }
    );
    assert_eq!(
        read::<_, WayRenamed>(Way::Right(3)).unwrap().to_string(),
        r#"{"Starboard":"3"}"#
    );
    assert_eq!(read::<_, Way>(WayRenamed::Port).unwrap(), "Left");
    let error = read::<_, Way>(WayRenamed::Starboard(3)).unwrap_err();
    assert!(matches!(error, RestoreError::Operation { .. }), "{error}");
}
