//! The forms of an active object.
#![deny(warnings)]
use std::{collections::BTreeMap, fmt::Display};

use fom_patterns::{active::Call, prelude::*};

struct Store<K, V>
where
    V: Clone,
{
    entries: BTreeMap<K, V>,
    object: u64,
}

#[active(crate = "::fom_patterns")]
impl<K: Ord + Send + 'static, V: Clone + Send> Store<K, V>
where
    V: 'static,
{
    /// Not a method: it stays here.
    pub fn new() -> Self {
        Self { entries: BTreeMap::new(), object: 0 }
    }

    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.entries.insert(key, value)
    }

    /// Until it is there.
    #[when(self.entries.contains_key(&key))]
    pub fn get(&self, key: K) -> Option<V> {
        self.entries.get(&key).cloned()
    }

    /// A parameter of its own.
    #[when(object.len() <= method.to_string().len() || matches!(args, Some(0..=3)))]
    pub fn show<T: Display>(&mut self, object: Vec<T>, method: T, args: Option<u8>) -> String {
        self.object += 1;
        format!("{method} {} {args:?}", object.len())
    }

    /// Taken apart, and `Self`.
    pub fn merge(&mut self, (key, mut values): (K, Vec<V>), _: u8, other: Self) -> (usize, Vec<Self>)
    where
        K: Clone,
    {
        if let Some(value) = values.pop() {
            self.entries.insert(key.clone(), value);
        }
        self.entries.extend(other.entries);
        (self.entries.len(), Vec::new())
    }

    pub(crate) fn with(&mut self, f: fn(&K) -> bool, g: Box<dyn Fn(&V) -> bool + Send>) -> usize {
        self.entries.retain(|key, value| f(key) && g(value));
        self.entries.len()
    }

    #[cfg(any())]
    #[when(no_such_thing)]
    pub fn missing(&mut self) -> NoSuchType {}

    pub async fn r#match(&mut self, r#type: &'static str, mut n: [u8; 2]) -> usize {
        n[0] += 1;
        std::future::ready(r#type.len() + usize::from(n[0])).await
    }

    #[active(priority = "low")]
    #[deprecated = "for the test"]
    pub fn old(&self) {}

    const LIMIT: usize = 3;

    #[when(self.entries.len() < Self::LIMIT && (0..limit).all(|n| n < limit))]
    pub fn limited(&self, limit: usize) -> usize {
        self.helper() + limit
    }

    fn helper(&self) -> usize {
        Self::LIMIT
    }
}

/// A module of its own, with a type of its own.
mod inner {
    use super::*;

    pub(crate) struct Private;

    #[active]
    impl Private {
        pub(crate) fn call(&self) -> Private {
            Private
        }
    }
}

fn main() -> Result<(), BoxError> {
    let runtime = Runtime::builder().localities(1).build()?;
    let store: StoreProxy<String, u64> = Store::new().activate(&runtime)?;
    let waiting: Call<Option<u64>> = store.get("a".to_owned());
    assert_eq!(store.insert("a".to_owned(), 1).wait()?, None);
    assert_eq!(waiting.wait()?, Some(1));
    assert_eq!(store.show(vec![1], 22, None).wait()?, "22 1 None");
    let merged = store.merge(("b".to_owned(), vec![2, 3]), 0, Store::new()).wait()?;
    assert_eq!(merged.0, 2);
    assert_eq!(store.with(|key| key == "b", Box::new(|value| *value == 3)).wait()?, 1);
    assert_eq!(store.r#match("four", [1, 2]).wait()?, 6);
    assert_eq!(store.limited(2).wait()?, 5);
    let private = inner::Private.activate(&runtime)?;
    let _: inner::Private = private.call().wait()?;
    Ok(())
}
