//! What a store executes together with a group.

use std::{
    any::{Any, TypeId, type_name},
    fmt,
    sync::Arc,
};

/// A statement that a store executes in the transaction that commits its group, such as SQL for other tables of the same
/// database.
///
/// Each store has its own type of statements, which [`Journal::executes`](crate::Journal::executes) returns. Clones share the
/// statement.
#[derive(Clone)]
pub struct Statement {
    value: Arc<dyn Any + Send + Sync>,
    name: &'static str,
}

impl Statement {
    /// Returns a statement for the stores that execute this type.
    pub fn new<T: Any + Send + Sync>(statement: T) -> Self {
        Self {
            value: Arc::new(statement),
            name: type_name::<T>(),
        }
    }

    /// Returns the type for which stores execute this statement.
    pub fn kind(&self) -> TypeId {
        (*self.value).type_id()
    }

    /// Returns the name of that type, for messages.
    pub fn kind_name(&self) -> &'static str {
        self.name
    }

    /// Returns the statement, if it has this type.
    pub fn downcast_ref<T: Any>(&self) -> Option<&T> {
        self.value.downcast_ref()
    }
}

impl fmt::Debug for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A statement may contain what must not be in a log.
        write!(f, "Statement({})", self.name)
    }
}
