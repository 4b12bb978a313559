//! What a store executes together with a group.

use std::{
    any::{Any, TypeId, type_name},
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

/// A statement that a store executes in the transaction that commits its group, such as SQL for other tables of the same
/// database.
///
/// Each store has its own type of statements, which [`Journal::executes`](crate::Journal::executes) returns. Clones share the
/// statement.
#[derive(Clone)]
pub struct Statement {
    value: Arc<Value>,
    name: &'static str,
}

impl Statement {
    /// Returns a statement for the stores that execute this type.
    pub fn new<T: Any + Send + Sync>(statement: T) -> Self {
        Self {
            value: Arc::new(Value(Some(Box::new(statement)))),
            name: type_name::<T>(),
        }
    }

    /// Returns the type for which stores execute this statement.
    pub fn kind(&self) -> TypeId {
        self.value().type_id()
    }

    /// Returns the name of that type, for messages.
    pub fn kind_name(&self) -> &'static str {
        self.name
    }

    /// Returns the statement, if it has this type.
    pub fn downcast_ref<T: Any>(&self) -> Option<&T> {
        self.value().downcast_ref()
    }

    fn value(&self) -> &(dyn Any + Send + Sync) {
        match &self.value.0 {
            Some(value) => &**value,
            // Only its drop takes it.
            None => &(),
        }
    }
}

/// The statement. Its drop is code of the user's, and runs on the threads of a store.
struct Value(Option<Box<dyn Any + Send + Sync>>);

impl Drop for Value {
    fn drop(&mut self) {
        let value = self.0.take();
        // The panic was shown.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
    }
}

impl fmt::Debug for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A statement may contain what must not be in a log.
        write!(f, "Statement({})", self.name)
    }
}
