//! Layers: phases before and after those of an operation that knows nothing of the layer.
//!
//! A layer is a machine over a type that holds another operation. One of its phases is marked `inner`; the phases of
//! the inner operation take the place of that phase. The two are one machine with one graph, and run as one fom. See
//! [`around`](macro@crate::fom#aroundtype).
//!
//! Hidden items in this folder are for generated code.

mod step;
mod versions;

use std::fmt;

pub use step::{inner, inner_name, is_inside, leads_inside, own, own_failure, raised};
pub use versions::migrate;

use crate::{
    graph::{Graph, Joined, Parts},
    operation::Operation,
};

/// A value of a layer's own, or a value of its inner operation: a [phase's name](Operation::Kind), or an
/// [error](Operation::Error).
///
/// ```
/// # use fom_runtime::{prelude::*, machine::Layered};
/// # struct Read;
/// # #[fom(operation(Read), transient)]
/// # enum Reading {
/// #     #[phase(start, to(Found))]
/// #     Look,
/// #     #[phase(end)]
/// #     Found,
/// # }
/// # impl ReadingTransitions for Read {
/// #     async fn look(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> { Ok(()) }
/// # }
/// struct Guarded {
///     request: Read,
/// }
///
/// #[fom(operation(Guarded), around(Read), transient)]
/// enum Guard {
///     #[phase(start, to(Serve))]
///     Authorise,
///     #[phase(inner(request))]
///     Serve { phase: Reading },
/// }
/// # impl GuardTransitions for Guarded {
/// #     async fn authorise(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> { Ok(()) }
/// # }
///
/// assert_eq!(Guarded::kind(&Guard::Authorise), Layered::Own(GuardKind::Authorise));
/// let look = Guard::Serve { phase: Reading::Look };
/// assert_eq!(Guarded::kind(&look), Layered::Inner(ReadingKind::Look));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layered<Own, Inner> {
    /// A value of the layer's own.
    Own(Own),
    /// A value of the inner operation. If that is a layer too, a value of the next layer.
    Inner(Inner),
}

impl<Own, Inner> From<Own> for Layered<Own, Inner> {
    fn from(own: Own) -> Self {
        Self::Own(own)
    }
}

impl<Own: fmt::Display, Inner: fmt::Display> fmt::Display for Layered<Own, Inner> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(own) => own.fmt(f),
            Self::Inner(inner) => inner.fmt(f),
        }
    }
}

impl<Own: std::error::Error, Inner: std::error::Error> std::error::Error for Layered<Own, Inner> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Own(own) => own.source(),
            Self::Inner(inner) => inner.source(),
        }
    }
}

/// The operation of a layer. Only `#[fom]` implements it.
#[doc(hidden)]
pub trait Layer: Operation {
    /// The inner operation.
    type Inner: Operation;
    /// The layer's own phases, and the name of the machine.
    const OWN: &'static Graph;
    /// The name of the layer, cut where the name of the inner operation stands.
    const NAME: &'static [&'static str];
    /// Earlier names of the layer, cut in the same way.
    const WAS: &'static [&'static [&'static str]] = &[];
}

impl<L: Layer> Parts for L {
    const OWN: &'static Graph = <L as Layer>::OWN;
    const OPERATION: &'static [&'static str] = L::NAME;
    const OPERATION_WAS: &'static [&'static [&'static str]] = L::WAS;
    const INNER: &'static Graph = <L::Inner as Operation>::GRAPH;
}

/// Returns [`Operation::GRAPH`] for a layer.
#[doc(hidden)]
pub const fn joined<L: Layer>() -> &'static Graph {
    Joined::<L>::GRAPH
}

/// Returns the index of one of the layer's own phases in the joined graph. `number` counts these phases without the
/// `inner` one.
#[doc(hidden)]
pub fn own_index<L: Layer>(number: usize) -> usize {
    if number < Joined::<L>::PLACE {
        number
    } else {
        number + <L::Inner as Operation>::GRAPH.phases().len()
    }
}

/// Returns the name of the phase with this index in the joined graph. `own`: the layer's own phases.
#[doc(hidden)]
pub fn layered_kind_at<L: Layer, K: Copy>(
    own: &[K],
    index: usize,
) -> Layered<K, <L::Inner as Operation>::Kind> {
    let inside =
        Joined::<L>::PLACE..Joined::<L>::PLACE + <L::Inner as Operation>::GRAPH.phases().len();
    if index < inside.start {
        Layered::Own(own[index])
    } else if index < inside.end {
        Layered::Inner(L::Inner::kind_at(index - inside.start))
    } else {
        Layered::Own(own[index - inside.len()])
    }
}

/// Returns the index of a phase of the inner operation in the joined graph.
#[doc(hidden)]
pub fn inner_index<L: Layer>(kind: <L::Inner as Operation>::Kind) -> usize {
    Joined::<L>::PLACE + <L::Inner as Operation>::index(kind)
}
