//! What can be saved with a fom.

use serde::{Serialize, de::DeserializeOwned};

/// A value in a snapshot: any value that serde can write and read back.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be saved with its fom",
    label = "has no `Serialize` and `Deserialize`",
    note = "derive `Serialize` and `Deserialize` for it, or declare the machine `#[fom(transient)]`"
)]
pub trait Savable: Serialize + DeserializeOwned {}

// Otherwise rustc asks for `Serialize` and for `Deserialize` in two errors, in its own words.
#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> Savable for T {}
