//! Values that foms carry, and that the operations that they start inherit.
//!
//! The values of a fom are one of its [attachments](Attachments). A runtime that carries nothing has no [`Carriers`], and
//! its foms have nothing of this.

use std::{
    any::{Any, TypeId},
    fmt,
    sync::Arc,
};

use crate::{
    fom::{Attached, Cold, Header},
    savable::Savable,
    snapshot::{RestoreError, decode, encoding::encode},
};

type Value = Arc<dyn Any + Send + Sync>;
/// Makes a value from that of the submitter.
type Make = Box<dyn Fn(Option<&Value>) -> Value + Send + Sync>;

/// The values of a fom as its record keeps them, by name.
pub type KeptValues = Vec<(String, Vec<u8>)>;

/// What the foms of a runtime carry.
#[derive(Default)]
pub(crate) struct Carriers(Vec<Carrier>);

/// Makes, saves and reads the values of one type.
struct Carrier {
    of: TypeId,
    name: &'static str,
    make: Make,
    save: fn(&Value) -> Result<Vec<u8>, String>,
    read: fn(&[u8]) -> Result<Value, String>,
}

/// The values that one fom carries. Before its submission, these may be a part of them.
#[derive(Clone, Default)]
pub(crate) struct Carried(Vec<Value>);

impl Attached for Carried {}

impl Carried {
    /// Returns what the fom carries.
    pub(crate) fn of(fom: &Header) -> Option<Arc<Self>> {
        fom.cold()
            .and_then(Cold::rare)
            .and_then(|rare| rare.attachments.find())
    }

    /// Returns the value of this type.
    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let value = self.find(TypeId::of::<T>())?;
        Arc::clone(value).downcast().ok()
    }

    fn find(&self, of: TypeId) -> Option<&Value> {
        self.0.iter().find(|value| (***value).type_id() == of)
    }

    /// Sets the value of its type.
    pub(crate) fn set<T: Send + Sync + 'static>(&mut self, value: T) {
        self.0
            .retain(|value| (**value).type_id() != TypeId::of::<T>());
        self.0.push(Arc::new(value));
    }
}

/// The values of a fom that listeners ask for.
#[derive(Clone, Copy)]
pub(crate) struct CarriedBy<'a>(pub(crate) &'a Header);

impl CarriedBy<'_> {
    pub(crate) fn get<T: Send + Sync + 'static>(self) -> Option<Arc<T>> {
        Carried::of(self.0)?.get()
    }
}

impl fmt::Debug for CarriedBy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CarriedBy")
    }
}

impl Carriers {
    /// Adds a type. It replaces the one that was added before for the same type.
    pub(crate) fn add<T: Savable + Send + Sync + 'static>(
        &mut self,
        name: &'static str,
        make: impl Fn(Option<&T>) -> T + Send + Sync + 'static,
    ) {
        let of = TypeId::of::<T>();
        self.0.retain(|carrier| carrier.of != of);
        self.0.push(Carrier {
            of,
            name,
            make: Box::new(move |from| {
                Arc::new(make(from.and_then(|from| (**from).downcast_ref())))
            }),
            save: |value| match (**value).downcast_ref::<T>() {
                Some(value) => encode(value),
                None => Err("it has another type".into()),
            },
            read: |bytes| {
                let value: T = decode(bytes).map_err(String::from)?;
                Ok(Arc::new(value))
            },
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the foms carry a value of this type.
    pub(crate) fn carry<T: 'static>(&self) -> bool {
        self.0.iter().any(|carrier| carrier.of == TypeId::of::<T>())
    }

    /// Returns a name that two types have.
    pub(crate) fn shared_name(&self) -> Option<&'static str> {
        let same = |at: &usize| {
            self.0[at + 1..]
                .iter()
                .any(|it| it.name == self.0[*at].name)
        };
        (0..self.0.len()).find(same).map(|at| self.0[at].name)
    }

    /// Returns what a new fom carries. `given`: what its submission says. `from`: what the fom carries that submits it.
    /// Calls user code.
    pub(crate) fn made(&self, given: Option<&Carried>, from: Option<&Carried>) -> Arc<Carried> {
        let value = |carrier: &Carrier| match given.and_then(|given| given.find(carrier.of)) {
            Some(given) => Arc::clone(given),
            None => (carrier.make)(from.and_then(|from| from.find(carrier.of))),
        };
        Arc::new(Carried(self.0.iter().map(value).collect()))
    }

    /// Saves the values that can be saved. Calls user code, and `lost` with the name of each other value, and the error of its
    /// `Serialize`.
    pub(crate) fn save(
        &self,
        carried: &Carried,
        mut lost: impl FnMut(&'static str, String),
    ) -> KeptValues {
        let mut saved = KeptValues::new();
        for carrier in &self.0 {
            let value = carried.find(carrier.of);
            match value.map(|value| (carrier.save)(value)) {
                Some(Ok(bytes)) => saved.push((carrier.name.to_owned(), bytes)),
                Some(Err(error)) => lost(carrier.name, error),
                None => {}
            }
        }
        saved
    }

    /// Reads what a fom carries that comes back. A value that its record does not have is made as without a submitter.
    /// Calls user code.
    ///
    /// # Errors
    ///
    /// Fails if a value does not fit its type.
    pub(crate) fn read(&self, saved: &KeptValues) -> Result<Arc<Carried>, RestoreError> {
        let value = |carrier: &Carrier| {
            let Some((name, bytes)) = saved.iter().find(|(name, _)| name == carrier.name) else {
                return Ok((carrier.make)(None));
            };
            (carrier.read)(bytes).map_err(|reason| RestoreError::Carried {
                name: name.clone(),
                reason,
            })
        };
        let values = self.0.iter().map(value).collect::<Result<_, _>>()?;
        Ok(Arc::new(Carried(values)))
    }
}
