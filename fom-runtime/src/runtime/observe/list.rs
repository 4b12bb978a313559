//! A list with the time of its making.

use std::{
    ops::{Deref, DerefMut},
    time::SystemTime,
    vec,
};

use serde::Serialize;

use crate::{fom::Env, instant::Instant, serial};

/// What a call of [`Inspect`](super::Inspect) lists, with the time of the call. It derefs to the list.
///
/// Times in the list are ages, or times of the runtime's clock. `at` and `now` are the same moment, so they give each of
/// them its time of day.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Listing<T> {
    /// The time of the wall clock.
    #[serde(serialize_with = "serial::since_1970")]
    pub at: SystemTime,
    /// The time on the runtime's clock.
    #[serde(serialize_with = "serial::clock_time")]
    pub now: Instant,
    /// The list.
    pub list: Vec<T>,
}

impl<T> Listing<T> {
    pub(super) fn new(env: &Env, list: Vec<T>) -> Self {
        Self {
            at: SystemTime::now(),
            now: Instant::from_nanos(env.clock.nanos()),
            list,
        }
    }
}

impl<T> Deref for Listing<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.list
    }
}

impl<T> DerefMut for Listing<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.list
    }
}

impl<T> IntoIterator for Listing<T> {
    type Item = T;
    type IntoIter = vec::IntoIter<T>;

    fn into_iter(self) -> vec::IntoIter<T> {
        self.list.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a Listing<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> std::slice::Iter<'a, T> {
        self.list.iter()
    }
}
