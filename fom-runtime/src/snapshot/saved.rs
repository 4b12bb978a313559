//! What an earlier release saved, in the hands of a migration.

use std::{
    any::type_name,
    panic::{AssertUnwindSafe, catch_unwind},
};

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    error::{BoxError, RestoreError},
    fom::panic_message,
    snapshot::{
        body::Parts,
        encoding::{decode, encode},
    },
};

/// From which version, and how what it saved becomes what the next would have.
#[doc(hidden)]
pub type Migration = (u32, fn(&mut Saved) -> Result<(), BoxError>);

/// A saved fom, as a migration gets it: by name, since the types of then are gone.
///
/// A migration turns what one version saved into what the next one would have: `#[fom(version = 2, migrate(v1(path)))]`. It
/// is run for each fom that is restored, and touches nothing else; after an error the fom is kept as it was.
///
/// ```
/// use fom_runtime::{BoxError, Saved, prelude::*};
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

/// What a migration asked for is not there, or does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SavedError {
    /// The phase was saved without this field.
    #[error("phase `{phase}` was saved without a field `{field}`; it has {}", list(.has))]
    NoField {
        /// The phase.
        phase: String,
        /// The field asked for.
        field: String,
        /// The fields that it has.
        has: Vec<String>,
    },
    /// A field is not of the type asked for.
    #[error("field `{field}` of phase `{phase}` is no `{of}`: {reason}")]
    Field {
        /// The phase.
        phase: String,
        /// The field.
        field: String,
        /// The type asked for.
        of: &'static str,
        /// What its `Deserialize` said.
        reason: String,
    },
    /// The operation is not of the type asked for.
    #[error("the operation is no `{of}`: {reason}")]
    Operation {
        /// The type asked for.
        of: &'static str,
        /// What its `Deserialize` said.
        reason: String,
    },
    /// The new value cannot be saved.
    #[error("`{of}` cannot be saved: {reason}")]
    NotSaved {
        /// Its type.
        of: &'static str,
        /// What its `Serialize` said.
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
    /// The version that it is in: that of the release that saved it, and of each next one after its migration.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The name of the phase, as it was called then.
    pub fn phase(&self) -> &str {
        &self.phase
    }

    /// Puts it into another phase, whose fields it has to have then.
    ///
    /// The attempt and what was left of the deadline stay as they were.
    pub fn set_phase(&mut self, name: impl Into<String>) {
        self.phase = name.into();
    }

    /// The names of the phase's fields.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_str())
    }

    /// Drops a field of the phase, whatever it is; says whether there was one.
    pub fn remove(&mut self, field: &str) -> bool {
        let before = self.fields.len();
        self.fields.retain(|(name, _)| name != field);
        self.fields.len() < before
    }

    /// Takes a field of the phase out.
    ///
    /// # Errors
    ///
    /// When there is none, or it is of another type; it is still there then.
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

    /// Gives the phase a field, in place of the one that has the name.
    ///
    /// # Errors
    ///
    /// When it cannot be saved; nothing is changed then.
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

    /// The operation, as a type that is like the one of then.
    ///
    /// # Errors
    ///
    /// When it is not; also when it has a field that the type does not have, for that one would be lost.
    pub fn operation<Old: DeserializeOwned>(&self) -> Result<Old, SavedError> {
        decode(&self.operation).map_err(|misfit| SavedError::Operation {
            of: type_name::<Old>(),
            reason: misfit.into(),
        })
    }

    /// Replaces the operation: by one that is like that of the next version, which is not yet today's if others follow.
    ///
    /// # Errors
    ///
    /// When it cannot be saved; nothing is changed then.
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

    /// Runs the migrations from its version to this one.
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
