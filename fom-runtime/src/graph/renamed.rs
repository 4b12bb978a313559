//! The current and earlier names of a machine and its operation. Records under any of these names are theirs.

use super::Graph;

/// The parts of the names of a layer's operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around {
    /// The current name, cut where the name of the inner operation stands.
    pub(super) name: &'static [&'static str],
    /// The names of earlier releases, cut in the same place.
    pub(super) was: &'static [&'static [&'static str]],
    pub(super) inner: &'static Graph,
}

impl Graph {
    /// Whether the enum of phases has or had this name: `#[fom(was = ..)]`.
    #[must_use]
    pub fn is_machine(&self, name: &str) -> bool {
        self.name == name || self.was.contains(&name)
    }

    /// Whether the operation's type has or had this name: `#[fom(operation(.., was = ..))]`.
    #[must_use]
    pub fn is_operation(&self, name: &str) -> bool {
        self.operation == name || self.operations().any(|known| known == name)
    }

    /// Returns all names of machine and operation that a record of a fom can have. The current names come first.
    #[must_use]
    pub fn names(&self) -> Vec<(&'static str, String)> {
        let machines = [self.name].into_iter().chain(self.was.iter().copied());
        let mut names: Vec<(&'static str, String)> = Vec::new();
        for machine in machines {
            for operation in self.operations() {
                if !names.contains(&(machine, operation.clone())) {
                    names.push((machine, operation));
                }
            }
        }
        names
    }

    /// Returns the current and earlier names of the operation. The current name comes first.
    fn operations(&self) -> impl Iterator<Item = String> {
        let own = [self.operation]
            .into_iter()
            .chain(self.operation_was.iter().copied());
        let own = own.map(str::to_owned);
        let joined = self.around.into_iter().flat_map(|around| {
            let cuts = [around.name].into_iter().chain(around.was.iter().copied());
            let inner: Vec<String> = around.inner.operations().collect();
            let joined = cuts
                .flat_map(move |cut| inner.iter().map(|name| cut.join(name)).collect::<Vec<_>>());
            joined.collect::<Vec<_>>()
        });
        own.chain(joined)
    }
}
