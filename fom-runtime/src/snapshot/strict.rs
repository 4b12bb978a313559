//! Strict reading: loses nothing and guesses nothing, whatever the user's types are.
//!
//! serde's derives read more than they write. They skip an unknown field. They read a struct from a list by position,
//! and a variant by its number. They also read a float from any number, with rounding, and a text from bytes. Each of
//! these means that the type has changed since the value was written, and is an error here.
//!
//! Every deserializer on the way down is wrapped, which is how the crate `serde_ignored` finds unknown fields. This
//! does not see what goes through serde's own buffers: the content of `flatten`, of `untagged`, and of enums with a
//! tag.

use std::{
    cell::{Cell, RefCell},
    fmt,
};

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};

/// The position of a value: its key, and the position of the value around it.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    within: Option<&'a Place<'a>>,
    key: Option<&'a str>,
    unknown: &'a RefCell<Option<String>>,
}

impl<'a> Place<'a> {
    /// Returns the outermost position. The first unknown field is stored in `unknown`.
    pub(super) fn outermost(unknown: &'a RefCell<Option<String>>) -> Self {
        Self {
            within: None,
            key: None,
            unknown,
        }
    }

    fn inner(&'a self, key: Option<&'a str>) -> Self {
        Self {
            within: Some(self),
            key,
            unknown: self.unknown,
        }
    }

    /// Returns the path, such as `address.street`.
    fn name(&self) -> String {
        let outer = self.within.map(Place::name).unwrap_or_default();
        match self.key {
            None => outer,
            Some(key) if outer.is_empty() => key.to_owned(),
            Some(key) => format!("{outer}.{key}"),
        }
    }
}

/// The requested type, where the reader would accept more than the writer writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Any,
    Struct,
    Name,
    Text,
    F32,
    F64,
}

/// A strict deserializer.
pub(super) struct Strict<'a, 'de, D> {
    inner: D,
    place: Place<'a>,
    key: Option<&'a Key<'de>>,
}

/// The last key, if it is a name.
type Key<'de> = Cell<Option<&'de str>>;

impl<'a, 'de, D> Strict<'a, 'de, D> {
    pub(super) fn new(inner: D, place: Place<'a>) -> Self {
        let key = None;
        Self { inner, place, key }
    }

    fn watch<V>(&self, visitor: V, asked: Asked) -> Watch<'a, 'de, V> {
        Watch {
            visitor,
            asked,
            place: self.place,
            key: self.key,
        }
    }
}

macro_rules! forward {
    ($($method:ident($($name:ident: $ty:ty),*) as $asked:ident;)*) => {
        $(fn $method<V: Visitor<'de>>(self, $($name: $ty,)* visitor: V) -> Result<V::Value, D::Error> {
            let visitor = self.watch(visitor, Asked::$asked);
            self.inner.$method($($name,)* visitor)
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<'_, 'de, D> {
    type Error = D::Error;

    forward! {
        deserialize_any() as Any;
        deserialize_bool() as Any;
        deserialize_i8() as Any;
        deserialize_i16() as Any;
        deserialize_i32() as Any;
        deserialize_i64() as Any;
        deserialize_i128() as Any;
        deserialize_u8() as Any;
        deserialize_u16() as Any;
        deserialize_u32() as Any;
        deserialize_u64() as Any;
        deserialize_u128() as Any;
        deserialize_f32() as F32;
        deserialize_f64() as F64;
        deserialize_char() as Text;
        deserialize_str() as Text;
        deserialize_string() as Text;
        deserialize_bytes() as Any;
        deserialize_byte_buf() as Any;
        deserialize_option() as Any;
        deserialize_unit() as Any;
        deserialize_unit_struct(name: &'static str) as Any;
        deserialize_newtype_struct(name: &'static str) as Any;
        deserialize_seq() as Any;
        deserialize_tuple(length: usize) as Any;
        deserialize_tuple_struct(name: &'static str, length: usize) as Any;
        deserialize_map() as Any;
        deserialize_struct(name: &'static str, fields: &'static [&'static str]) as Struct;
        deserialize_enum(name: &'static str, variants: &'static [&'static str]) as Any;
        deserialize_identifier() as Name;
    }

    /// serde calls this only for a field that the type does not have.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, D::Error> {
        let name = self.place.name();
        let error = D::Error::custom(format_args!("there is no field `{name}`"));
        self.place.unknown.replace(Some(name));
        Err(error)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// A visitor that accepts no more than the requested type, and watches the values inside.
struct Watch<'a, 'de, V> {
    visitor: V,
    asked: Asked,
    place: Place<'a>,
    key: Option<&'a Key<'de>>,
}

macro_rules! visit {
    ($($method:ident($ty:ty) $(unless $asked:pat => $unexpected:expr)?;)*) => {
        $(fn $method<E: Error>(self, value: $ty) -> Result<V::Value, E> {
            $(if let $asked = self.asked {
                return Err(E::invalid_type($unexpected(value), &self.visitor));
            })?
            self.visitor.$method(value)
        })*
    };
}

fn signed(value: impl Into<i64>) -> Unexpected<'static> {
    Unexpected::Signed(value.into())
}

fn unsigned(value: impl Into<u64>) -> Unexpected<'static> {
    Unexpected::Unsigned(value.into())
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Watch<'_, 'de, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    visit! {
        visit_bool(bool);
        visit_i8(i8) unless Asked::F32 | Asked::F64 | Asked::Name => signed;
        visit_i16(i16) unless Asked::F32 | Asked::F64 | Asked::Name => signed;
        visit_i32(i32) unless Asked::F32 | Asked::F64 | Asked::Name => signed;
        visit_i64(i64) unless Asked::F32 | Asked::F64 | Asked::Name => signed;
        visit_i128(i128);
        visit_u8(u8) unless Asked::F32 | Asked::F64 | Asked::Name => unsigned;
        visit_u16(u16) unless Asked::F32 | Asked::F64 | Asked::Name => unsigned;
        visit_u32(u32) unless Asked::F32 | Asked::F64 | Asked::Name => unsigned;
        visit_u64(u64) unless Asked::F32 | Asked::F64 | Asked::Name => unsigned;
        visit_u128(u128);
        visit_f32(f32);
        visit_f64(f64) unless Asked::F32 => Unexpected::Float;
        visit_char(char);
        visit_str(&str);
        visit_string(String);
        visit_bytes(&[u8]) unless Asked::Text | Asked::Name => Unexpected::Bytes;
        visit_borrowed_bytes(&'de [u8]) unless Asked::Text | Asked::Name => Unexpected::Bytes;
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<V::Value, E> {
        if let Some(key) = self.key {
            key.set(Some(value));
        }
        self.visitor.visit_borrowed_str(value)
    }

    fn visit_byte_buf<E: Error>(self, value: Vec<u8>) -> Result<V::Value, E> {
        match self.asked {
            Asked::Text | Asked::Name => self.visit_bytes(&value),
            _ => self.visitor.visit_byte_buf(value),
        }
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_some(Strict::new(inner, self.place))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor
            .visit_newtype_struct(Strict::new(inner, self.place))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<V::Value, A::Error> {
        if self.asked == Asked::Struct {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self.visitor));
        }
        let place = self.place;
        let access = &mut seq;
        let value = self.visitor.visit_seq(Inside { access, place })?;
        // The reader below skips the rest of bytes that are read as a list.
        match seq.next_element::<IgnoredAny>()? {
            None => Ok(value),
            Some(_) => Err(A::Error::custom("there are more elements than are read")),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        let place = self.place;
        let access = Inside { access: map, place };
        let key = Cell::new(None);
        self.visitor.visit_map(Keyed { access, key })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        let place = self.place;
        let access = variant;
        self.visitor.visit_enum(Inside { access, place })
    }
}

/// Access to the content of a list or an enum.
struct Inside<'a, A> {
    access: A,
    place: Place<'a>,
}

/// Access to the content of a map or a struct.
struct Keyed<'a, 'de, A> {
    access: Inside<'a, A>,
    key: Key<'de>,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Inside<'_, A> {
    type Error = A::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, A::Error> {
        self.access.next_element_seed(Seed::new(seed, self.place))
    }

    fn size_hint(&self) -> Option<usize> {
        self.access.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Keyed<'_, 'de, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        self.key.set(None);
        let place = self.access.place;
        let key = Some(&self.key);
        self.access.access.next_key_seed(Seed { seed, place, key })
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        let place = self.access.place;
        let place = place.inner(self.key.get());
        self.access.access.next_value_seed(Seed::new(seed, place))
    }

    fn size_hint(&self) -> Option<usize> {
        self.access.access.size_hint()
    }
}

impl<'a, 'de, A: EnumAccess<'de>> EnumAccess<'de> for Inside<'a, A> {
    type Error = A::Error;
    type Variant = Inside<'a, A::Variant>;

    fn variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<(T::Value, Self::Variant), A::Error> {
        let place = self.place;
        let (value, access) = self.access.variant_seed(Seed::new(seed, place))?;
        Ok((value, Inside { access, place }))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Inside<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.access.unit_variant()
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, A::Error> {
        self.access
            .newtype_variant_seed(Seed::new(seed, self.place))
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let watch = Strict::new((), self.place).watch(visitor, Asked::Any);
        self.access.tuple_variant(length, watch)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let watch = Strict::new((), self.place).watch(visitor, Asked::Struct);
        self.access.struct_variant(fields, watch)
    }
}

/// Passes a strict deserializer to the next reader.
struct Seed<'a, 'de, T> {
    seed: T,
    place: Place<'a>,
    key: Option<&'a Key<'de>>,
}

impl<'a, T> Seed<'a, '_, T> {
    fn new(seed: T, place: Place<'a>) -> Self {
        let key = None;
        Self { seed, place, key }
    }
}

impl<'de, T: DeserializeSeed<'de>> DeserializeSeed<'de> for Seed<'_, 'de, T> {
    type Value = T::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<T::Value, D::Error> {
        let (place, key) = (self.place, self.key);
        self.seed.deserialize(Strict { inner, place, key })
    }
}
