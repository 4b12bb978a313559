//! Commands to the named parts of a program, such as a change of the policy of an admission.

use std::sync::Arc;

use crate::{
    defaults::BoxError,
    runtime::extension::{Extension, fenced, listed::Listed},
};

/// A part did not carry out a command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// No part has this kind and name.
    #[error("no {kind} has the name `{name}`; `Inspect::parts` lists the names")]
    NoPart {
        /// The kind.
        kind: String,
        /// The name.
        name: String,
    },
    /// Several parts have this kind and name.
    #[error("{count} parts of the kind {kind} have the name `{name}`; give each a name of its own")]
    Ambiguous {
        /// The kind.
        kind: String,
        /// The name.
        name: String,
        /// The number of these parts.
        count: usize,
    },
    /// The part does not know the command.
    #[error("{kind} `{name}` takes no command `{command}`")]
    Unknown {
        /// The kind.
        kind: String,
        /// The name.
        name: String,
        /// The command.
        command: String,
    },
    /// The part refuses the command, such as an argument that cannot be read.
    #[error(transparent)]
    Refused(BoxError),
}

impl Extension<'_> {
    /// Gives a command to the [part](crate::observe::Inspect::parts) of this kind and name. Returns what the part did. This can
    /// block for as long as code of the program runs, such as a policy.
    ///
    /// # Errors
    ///
    /// Fails if there is not exactly one such part, or if the part does not know the command or refuses it.
    pub fn command(
        self,
        kind: &str,
        name: &str,
        command: &str,
        argument: &str,
    ) -> Result<String, CommandError> {
        let mut parts = self.listed_parts();
        parts.retain(|part| {
            let infos = fenced(self.runtime, || Arc::clone(part).parts(self.runtime));
            infos.iter().any(|of| of.kind == kind && of.name == name)
        });
        let (kind, name) = (kind.to_owned(), name.to_owned());
        let part: Arc<dyn Listed> = match parts.len() {
            0 => return Err(CommandError::NoPart { kind, name }),
            1 => parts.swap_remove(0),
            count => return Err(CommandError::Ambiguous { kind, name, count }),
        };
        let done = fenced(self.runtime, || Some(part.command(command, argument)));
        let panicked = || CommandError::Refused("the part panicked; see the incidents".into());
        match done.ok_or_else(panicked)? {
            Some(done) => done.map_err(CommandError::Refused),
            None => Err(CommandError::Unknown {
                kind,
                name,
                command: command.to_owned(),
            }),
        }
    }
}
