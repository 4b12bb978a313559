//! The names of fields that no tool shows.

/// The names of an operation, and those of the operation inside a layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Secrets {
    own: &'static [&'static str],
    inside: Option<&'static Secrets>,
}

impl Secrets {
    pub(super) const fn new(own: &'static [&'static str]) -> Self {
        Self { own, inside: None }
    }

    /// Returns the names of a layer around an operation with the names `inside`.
    pub(super) const fn around(self, inside: &'static Secrets) -> Self {
        Self {
            own: self.own,
            inside: Some(inside),
        }
    }

    /// Returns the name with this index.
    pub(crate) const fn get(&self, mut index: usize) -> Option<&'static str> {
        let mut at = self;
        loop {
            if index < at.own.len() {
                return Some(at.own[index]);
            }
            index -= at.own.len();
            match at.inside {
                Some(inside) => at = inside,
                None => return None,
            }
        }
    }
}
