//! What an earlier release saved, as input of a migration.

use std::{
    any::type_name,
    panic::{AssertUnwindSafe, catch_unwind},
};

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    defaults::BoxError,
    snapshot::{
        RestoreError,
        body::Parts,
        encoding::{decode, encode},
    },
};
use fom_protocol::panic_message;

/// The version from which a migration starts, and the function that migrates to the next version. For generated code.
#[doc(hidden)]
pub type Migration = (u32, fn(&mut Saved) -> Result<(), BoxError>);

/// A saved fom, as a migration gets it. Values are read by name, since the types of the earlier release are gone.
///
/// A migration turns the data of one version into the data of the next: `#[fom(version = 2, migrate(v1(path)))]`. The
/// migration runs for each restored fom and touches nothing else. After an error the fom is kept as before.
///
/// ```
/// use fom_runtime::{prelude::*, error::BoxError, snapshot::Saved};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Call {
///     callee: String,
/// }
///
/// #[fom(operation(Call), version = 2, migrate(v1(seconds_to_millis)))]
/// enum Route {
///     #[phase(start, to(Ring))]
///     Locate,
///     /// In version 1 it had `seconds`.
///     #[phase(to(Over))]
///     Ring { millis: u64 },
///     #[phase(end)]
///     Over,
/// }
///
/// fn seconds_to_millis(saved: &mut Saved) -> Result<(), BoxError> {
///     if saved.phase() == "Ring" {
///         let seconds: u64 = saved.take("seconds")?;
///         saved.put("millis", &(seconds * 1_000))?;
///     }
///     Ok(())
/// }
/// # impl RouteTransitions for Call {
/// #     async fn locate(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterLocate, BoxError> {
/// #         Ok(RouteAfterLocate::Ring { millis: 1 })
/// #     }
/// #     async fn ring(&mut self, _: &mut Cx<'_>, _: &mut u64) -> Result<(), BoxError> { Ok(()) }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    pub(crate) version: u32,
    pub(crate) phase: String,
    pub(crate) fields: Vec<(String, Vec<u8>)>,
    pub(crate) operation: Vec<u8>,
}

/// A value that a migration asked for is not there, or does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SavedError {
    /// The phase was saved without this field.
    #[error("phase `{phase}` was saved without a field `{field}`; it has {}", list(.has))]
    NoField {
        /// The phase.
        phase: String,
        /// The requested field.
        field: String,
        /// The fields of the phase.
        has: Vec<String>,
    },
    /// A field is not of the requested type.
    #[error("field `{field}` of phase `{phase}` is no `{of}`: {reason}")]
    Field {
        /// The phase.
        phase: String,
        /// The field.
        field: String,
        /// The requested type.
        of: &'static str,
        /// The error of its `Deserialize`.
        reason: String,
    },
    /// The operation is not of the requested type.
    #[error("the operation is no `{of}`: {reason}")]
    Operation {
        /// The requested type.
        of: &'static str,
        /// The error of its `Deserialize`.
        reason: String,
    },
    /// The new value cannot be saved.
    #[error("`{of}` cannot be saved: {reason}")]
    NotSaved {
        /// The type of the value.
        of: &'static str,
        /// The error of its `Serialize`.
        reason: String,
    },
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

impl Saved {
    /// Returns the current version: first the version of the release that saved the fom, then the next version after
    /// each migration.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Returns the name of the phase, as it was then.
    pub fn phase(&self) -> &str {
        &self.phase
    }

    /// Moves the fom to another phase. The fom must then have the fields of that phase.
    ///
    /// The attempt and the rest of the deadline stay the same.
    pub fn set_phase(&mut self, name: impl Into<String>) {
        self.phase = name.into();
    }

    /// Returns the names of the phase's fields.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_str())
    }

    /// Removes a field of the phase, whatever its type. Returns whether there was one.
    pub fn remove(&mut self, field: &str) -> bool {
        let before = self.fields.len();
        self.fields.retain(|(name, _)| name != field);
        self.fields.len() < before
    }

    /// Removes a field of the phase and returns its value.
    ///
    /// # Errors
    ///
    /// Fails if there is no such field, or if it has another type. Then the field stays.
    pub fn take<T: DeserializeOwned>(&mut self, field: &str) -> Result<T, SavedError> {
        let place = self.fields.iter().position(|(name, _)| name == field);
        let place = place.ok_or_else(|| SavedError::NoField {
            phase: self.phase.clone(),
            field: field.to_owned(),
            has: self.fields().map(str::to_owned).collect(),
        })?;
        let value = decode(&self.fields[place].1).map_err(|misfit| SavedError::Field {
            phase: self.phase.clone(),
            field: field.to_owned(),
            of: type_name::<T>(),
            reason: misfit.into(),
        })?;
        self.fields.remove(place);
        Ok(value)
    }

    /// Adds a field to the phase, or replaces the field with this name.
    ///
    /// # Errors
    ///
    /// Fails if the value cannot be saved. Then nothing changes.
    pub fn put<T: Serialize>(
        &mut self,
        field: impl Into<String>,
        value: &T,
    ) -> Result<(), SavedError> {
        let (field, value) = (field.into(), encoded(value)?);
        self.fields.retain(|(name, _)| *name != field);
        self.fields.push((field, value));
        Ok(())
    }

    /// Returns the operation, as a type with the fields of that time.
    ///
    /// # Errors
    ///
    /// Fails if the operation does not fit the type. A field that the type does not have is also an error, because the
    /// field would be lost.
    pub fn operation<Old: DeserializeOwned>(&self) -> Result<Old, SavedError> {
        decode(&self.operation).map_err(|misfit| SavedError::Operation {
            of: type_name::<Old>(),
            reason: misfit.into(),
        })
    }

    /// Replaces the operation by a value like that of the next version. That version is not the current one if more
    /// migrations follow.
    ///
    /// # Errors
    ///
    /// Fails if the value cannot be saved. Then nothing changes.
    pub fn set_operation<New: Serialize>(&mut self, operation: &New) -> Result<(), SavedError> {
        self.operation = encoded(operation)?;
        Ok(())
    }

    pub(super) fn values(&self) -> Vec<(&str, &[u8])> {
        let fields = self.fields.iter();
        fields
            .map(|(name, value)| (name.as_str(), value.as_slice()))
            .collect()
    }

    pub(super) fn operation_bytes(&self) -> &[u8] {
        &self.operation
    }

    pub(super) fn of(parts: Parts<'_>) -> Self {
        let fields = parts.fields.iter();
        let fields = fields.map(|(name, value)| ((*name).to_owned(), value.to_vec()));
        Self {
            version: parts.version,
            phase: parts.phase.to_owned(),
            fields: fields.collect(),
            operation: parts.operation.to_vec(),
        }
    }

    /// Runs the migrations from the saved version to version `to`.
    pub(crate) fn migrate(
        &mut self,
        machine: &'static str,
        to: u32,
        migrations: &[Migration],
    ) -> Result<(), RestoreError> {
        let saved = self;
        if saved.version > to {
            return Err(RestoreError::NewerVersion {
                machine,
                found: saved.version,
                known: to,
            });
        }
        while saved.version < to {
            let from = saved.version;
            let next = migrations.iter().find(|(version, _)| *version == from);
            let Some((_, migrate)) = next else {
                return Err(RestoreError::NoMigration {
                    machine,
                    found: from,
                    wanted: to,
                });
            };
            match catch_unwind(AssertUnwindSafe(|| migrate(saved))) {
                Ok(Ok(())) => saved.version = from + 1,
                Ok(Err(error)) => {
                    return Err(RestoreError::MigrationFailed {
                        machine,
                        from,
                        reason: error.to_string(),
                    });
                }
                Err(panic) => {
                    return Err(RestoreError::MigrationPanicked {
                        machine,
                        from,
                        message: panic_message(panic),
                    });
                }
            }
        }
        Ok(())
    }
}

fn encoded<T: Serialize>(value: &T) -> Result<Vec<u8>, SavedError> {
    encode(value).map_err(|reason| SavedError::NotSaved {
        of: type_name::<T>(),
        reason,
    })
}
