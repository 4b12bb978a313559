//! Values that every fom of a runtime reaches by their type.

use std::any::{Any, TypeId, type_name};

type Resource = (TypeId, &'static str, Box<dyn Any + Send + Sync>);

/// A list: resources are few, and fixed once the runtime runs.
#[derive(Default)]
pub(crate) struct Resources(Vec<Resource>);

impl Resources {
    /// Adds a resource. A second value of the same type replaces the first.
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        let entry: Resource = (TypeId::of::<T>(), type_name::<T>(), Box::new(value));
        match self.0.iter_mut().find(|resource| resource.0 == entry.0) {
            Some(old) => *old = entry,
            None => self.0.push(entry),
        }
    }

    /// Returns the resource of this type and its place in the list.
    pub(crate) fn get<T: 'static>(&self) -> Option<(&T, u32)> {
        let place = self
            .0
            .iter()
            .position(|resource| resource.0 == TypeId::of::<T>())?;
        Some((self.0[place].2.downcast_ref()?, place as u32))
    }

    pub(crate) fn name(&self, place: u32) -> &'static str {
        self.0
            .get(place as usize)
            .map_or("a resource", |resource| resource.1)
    }
}
