//! Values of MessagePack in another format, without a tree of them in memory. A value of one byte would take 32 bytes in a
//! tree.

use std::{cell::RefCell, fmt, sync::Arc};

use serde::{
    Deserialize as _,
    de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor},
    ser::{Error as _, Serialize, SerializeMap, SerializeSeq, Serializer},
};

/// The deepest nesting of a value, as in the package that writes them.
const DEEPEST: usize = 128;
/// Stands in the place of a secret.
const HIDDEN: &str = "(secret)";
/// Why an extension cannot be read.
const EXTENSION: &str = "an extension of MessagePack";

/// A value that an operation, a phase or an event has in a journal.
///
/// It can be serialized, for example as JSON. Bytes are then a list of numbers, and a key that is no text becomes text. In
/// place of a field that the machine declares as `secret(..)` there is the text `(secret)`. In place of a value that cannot be
/// read there is a map with the reason as its field `unreadable`.
#[derive(Clone, PartialEq, Eq)]
pub struct SavedValue<'a> {
    bytes: &'a [u8],
    secrets: Arc<[String]>,
    is_secret: bool,
}

impl<'a> SavedValue<'a> {
    pub(super) fn new(bytes: &'a [u8], secrets: &Arc<[String]>) -> Self {
        Self {
            bytes,
            secrets: Arc::clone(secrets),
            is_secret: false,
        }
    }

    /// Returns a value all of which is a secret.
    pub(crate) fn hidden(bytes: &'a [u8]) -> Self {
        Self {
            is_secret: true,
            ..Self::new(bytes, &Arc::default())
        }
    }

    /// Shows the value, without the secrets in it.
    pub(super) fn show(&mut self, secrets: &Arc<[String]>) {
        *self = Self::new(self.bytes, secrets);
    }

    /// Returns the value of the field `name`.
    pub(super) fn of_field(name: &str, bytes: &'a [u8], secrets: &Arc<[String]>) -> Self {
        Self {
            is_secret: is_in(secrets, name),
            ..Self::new(bytes, secrets)
        }
    }

    /// Returns the value in MessagePack, also of a secret.
    #[must_use]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    fn reader(&self) -> rmp_serde::Deserializer<rmp_serde::decode::ReadRefReader<'a, [u8]>> {
        let mut reader = rmp_serde::Deserializer::from_read_ref(self.bytes);
        reader.set_max_depth(DEEPEST);
        reader
    }
}

impl fmt::Debug for SavedValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SavedValue({} bytes)", self.bytes.len())
    }
}

impl Serialize for SavedValue<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.is_secret {
            return to.serialize_str(HIDDEN);
        }
        // A trial, since a part of a value that is already written cannot be taken back.
        if let Err(error) = IgnoredAny::deserialize(&mut self.reader()) {
            return unreadable(to, &error.to_string());
        }
        pass(&mut self.reader(), to, &self.secrets)
    }
}

fn is_in(secrets: &[String], name: &str) -> bool {
    secrets.iter().any(|secret| secret == name)
}

/// Stands in the place of a value that cannot be read.
fn unreadable<S: Serializer>(to: S, why: &str) -> Result<S::Ok, S::Error> {
    let mut object = to.serialize_map(Some(1))?;
    object.serialize_entry("unreadable", why)?;
    object.end()
}

/// Passes the next value of `from` to `to`.
fn pass<'de, D: Deserializer<'de>, S: Serializer>(
    from: D,
    to: S,
    secrets: &[String],
) -> Result<S::Ok, S::Error> {
    from.deserialize_any(Pass(to, secrets))
        .map_err(S::Error::custom)
}

/// A value that can be read once.
struct Next<'a, D>(RefCell<Option<D>>, &'a [String]);

impl<'a, D> Next<'a, D> {
    fn new(from: D, secrets: &'a [String]) -> Self {
        Self(RefCell::new(Some(from)), secrets)
    }
}

impl<'de, D: Deserializer<'de>> Serialize for Next<'_, D> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let from = self.0.borrow_mut().take();
        let from = from.ok_or_else(|| S::Error::custom("a value is read twice"))?;
        pass(from, to, self.1)
    }
}

struct Pass<'a, S>(S, &'a [String]);

impl<'de, S: Serializer> Visitor<'de> for Pass<'_, S> {
    type Value = S::Ok;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of MessagePack")
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<S::Ok, E> {
        self.0.serialize_bool(value).map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<S::Ok, E> {
        self.0.serialize_i64(value).map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<S::Ok, E> {
        self.0.serialize_u64(value).map_err(E::custom)
    }

    fn visit_f32<E: serde::de::Error>(self, value: f32) -> Result<S::Ok, E> {
        match value.is_finite() {
            true => self.0.serialize_f32(value).map_err(E::custom),
            false => self.visit_f64(value.into()),
        }
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<S::Ok, E> {
        match value.is_finite() {
            true => self.0.serialize_f64(value).map_err(E::custom),
            // JSON has no word for these.
            false => self.0.collect_str(&value).map_err(E::custom),
        }
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<S::Ok, E> {
        self.0.serialize_str(value).map_err(E::custom)
    }

    fn visit_bytes<E: serde::de::Error>(self, value: &[u8]) -> Result<S::Ok, E> {
        self.0.collect_seq(value).map_err(E::custom)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<S::Ok, E> {
        self.0.serialize_unit().map_err(E::custom)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<S::Ok, E> {
        self.visit_unit()
    }

    /// Of an extension, only the program that wrote it knows the meaning.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, from: D) -> Result<S::Ok, D::Error> {
        IgnoredAny::deserialize(from)?;
        unreadable(self.0, EXTENSION).map_err(D::Error::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<S::Ok, A::Error> {
        // Not by the length that the bytes promise: it can be wrong.
        let mut to = self.0.serialize_seq(None).map_err(A::Error::custom)?;
        while from.next_element_seed(Item(&mut to, self.1))?.is_some() {}
        to.end().map_err(A::Error::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<S::Ok, A::Error> {
        let mut to = self.0.serialize_map(None).map_err(A::Error::custom)?;
        while let Some(key) = from.next_key_seed(Key(self.1))? {
            to.serialize_key(&key).map_err(A::Error::custom)?;
            if is_in(self.1, &key) {
                from.next_value::<IgnoredAny>()?;
                to.serialize_value(HIDDEN).map_err(A::Error::custom)?;
            } else {
                from.next_value_seed(Of(&mut to, self.1))?;
            }
        }
        to.end().map_err(A::Error::custom)
    }
}

/// The next item of a list.
struct Item<'a, S>(&'a mut S, &'a [String]);

impl<'de, S: SerializeSeq> DeserializeSeed<'de> for Item<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        let next = Next::new(from, self.1);
        self.0.serialize_element(&next).map_err(D::Error::custom)
    }
}

/// The value of a key.
struct Of<'a, S>(&'a mut S, &'a [String]);

impl<'de, S: SerializeMap> DeserializeSeed<'de> for Of<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        let next = Next::new(from, self.1);
        self.0.serialize_value(&next).map_err(D::Error::custom)
    }
}

/// A key, as text without the secrets in it.
#[derive(Clone, Copy)]
struct Key<'a>(&'a [String]);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<String, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Key<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<String, E> {
        Ok(value.to_owned())
    }

    fn visit_bytes<E: serde::de::Error>(self, value: &[u8]) -> Result<String, E> {
        Ok(format!("{value:?}"))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<String, E> {
        Ok("null".to_owned())
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, from: D) -> Result<String, D::Error> {
        IgnoredAny::deserialize(from)?;
        Ok(EXTENSION.to_owned())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<String, A::Error> {
        let mut text = "[".to_owned();
        while let Some(next) = from.next_element_seed(self)? {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&next);
        }
        text.push(']');
        Ok(text)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<String, A::Error> {
        let mut text = "{".to_owned();
        while let Some(key) = from.next_key_seed(self)? {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&key);
            text.push(':');
            if is_in(self.0, &key) {
                from.next_value::<IgnoredAny>()?;
                text.push_str(HIDDEN);
            } else {
                text.push_str(&from.next_value_seed(self)?);
            }
        }
        text.push('}');
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use serde::Serialize;

    use super::SavedValue;

    #[derive(PartialEq, Eq, PartialOrd, Ord, Serialize)]
    struct Card {
        bank: &'static str,
        pin: &'static str,
    }

    const CARD: Card = Card {
        bank: "the bank",
        pin: "hush",
    };

    fn shown(value: &SavedValue<'_>) -> String {
        serde_json::to_string(value).unwrap()
    }

    #[test]
    fn a_secret_in_the_key_of_a_map_is_hidden() {
        let limits = BTreeMap::from([(vec![CARD], 7)]);
        let bytes = rmp_serde::to_vec_named(&limits).unwrap();
        let secrets: Arc<[String]> = Arc::from(["pin".to_owned()]);
        let shown = shown(&SavedValue::new(&bytes, &secrets));
        assert_eq!(shown, r#"{"[{bank:the bank,pin:(secret)}]":7}"#);
    }

    #[test]
    fn a_value_with_unknown_secrets_is_hidden_whole() {
        let bytes = rmp_serde::to_vec_named(&CARD).unwrap();
        assert_eq!(shown(&SavedValue::hidden(&bytes)), r#""(secret)""#);
    }
}
