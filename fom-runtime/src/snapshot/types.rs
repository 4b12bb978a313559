//! After a change of its type, a value is read as what was saved, or not at all.

use std::{collections::BTreeMap, fmt::Debug, fmt::Write as _};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::encoding::{decode, encode};

#[derive(Debug, Default, Serialize, Deserialize)]
struct Unit;

#[derive(Debug, Serialize, Deserialize)]
struct Newtype(u8);

#[derive(Debug, Serialize, Deserialize)]
struct Pair(u8, u8);

#[derive(Debug, Serialize, Deserialize)]
struct Size {
    high: u8,
    wide: u8,
}

#[derive(Debug, Serialize, Deserialize)]
struct Swapped {
    wide: u8,
    high: u8,
}

#[derive(Debug, Serialize, Deserialize)]
struct Taller {
    high: u8,
    #[serde(default)]
    wide: u8,
    #[serde(default)]
    deep: u8,
}

#[derive(Debug, Serialize, Deserialize)]
struct Flat {
    high: u8,
}

#[derive(Debug, Serialize, Deserialize)]
enum Way {
    Left,
    Right(u8),
    Up(u8, u8),
    Down { high: u8, wide: u8 },
}

#[derive(Debug, Serialize, Deserialize)]
enum Reordered {
    Down { wide: u8, high: u8 },
    Up(u8, u8),
    Right(u8),
    Left,
}

/// Lists the types that read the value, and what they read. Types that refuse the value are not named.
fn readings<T: Serialize>(lines: &mut String, of: &str, value: &T) {
    fn read<T: DeserializeOwned + Debug>(readings: &mut Vec<String>, name: &str, bytes: &[u8]) {
        if let Ok(value) = decode::<T>(bytes) {
            readings.push(format!("{name} {value:?}"));
        }
    }
    let bytes = encode(value).unwrap();
    let mut all = Vec::new();
    macro_rules! each {
        ($($ty:ty),* $(,)?) => { $(read::<$ty>(&mut all, stringify!($ty), &bytes);)* };
    }
    each!(
        (), bool, u8, i8, u64, i64, i128, f32, f64, char, String, Option<u8>, Option<String>, Vec<u8>, Vec<String>,
        (u8, u8), [u8; 2], BTreeMap<String, u8>, BTreeMap<u8, u8>, Unit, Newtype, Pair, Size, Swapped, Taller, Flat, Way,
        Reordered,
    );
    writeln!(lines, "{of}: {}", all.join(" | ")).unwrap();
}

#[test]
fn a_changed_type_is_read_as_what_was_saved_or_not_at_all() {
    let mut lines = String::new();
    macro_rules! each {
        ($($value:expr),* $(,)?) => { $(readings(&mut lines, stringify!($value), &$value);)* };
    }
    each!(
        (),
        true,
        7u8,
        300u16,
        -7i8,
        u64::MAX,
        i64::MIN,
        1.5f32,
        2.0f64,
        'x',
        "x",
        "two",
        Some(7u8),
        None::<u8>,
        vec![1u8, 2],
        vec![1u8, 2, 3],
        Vec::<u8>::new(),
        vec!["a"],
        (1u8, 2u8),
        BTreeMap::from([("high", 1u8), ("wide", 2)]),
        BTreeMap::from([(1u8, 2u8)]),
        Unit,
        Newtype(7),
        Pair(1, 2),
        Size { high: 1, wide: 2 },
        Taller {
            high: 1,
            wide: 2,
            deep: 3
        },
        Flat { high: 1 },
        Way::Left,
        Way::Right(7),
        Way::Up(1, 2),
        Way::Down { high: 1, wide: 2 },
    );
    insta::assert_snapshot!(lines);
}
