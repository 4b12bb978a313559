//! The methods that a graph gets.

use fom_runtime::machine::Graph;

use crate::{column, layout::Layout, parts::Parts, rows};

/// Draws the graph of an operation.
///
/// ```
/// use fom_draw::prelude::*;
/// use fom_runtime::prelude::*;
///
/// struct FetchPage;
///
/// #[fom(operation(FetchPage), transient)]
/// enum Fetch {
///     #[phase(start, to(Done, Refused), within = "2s")]
///     Ask,
///     #[phase(end)]
///     Done,
///     #[phase(end, failure)]
///     Refused,
/// }
/// # impl FetchTransitions for FetchPage {
/// #     async fn ask(&mut self, _: &mut Cx<'_>) -> Result<FetchAfterAsk, BoxError> { Ok(FetchAfterAsk::Done) }
/// # }
///
/// let layout = FetchPage::GRAPH.layout();
/// assert_eq!(layout.nodes.len(), 3);
/// assert!(layout.nodes[0].y < layout.nodes[1].y);
///
/// let picture = FetchPage::GRAPH.svg();
/// assert!(picture.starts_with("<svg"));
/// ```
pub trait Draw {
    /// Places the phases and the edges.
    ///
    /// A graph of ten phases takes milliseconds, a large one up to a second, on the calling thread. Keep the result: it
    /// depends only on the graph.
    ///
    /// A graph with many long edges is placed in [one column](crate::Placing::Column), since rows of it would take too
    /// long. So is a graph on which the placing in rows fails. If the crate that does it panics, the panic is caught
    /// here. The panic hook of the program still reports it.
    #[must_use]
    fn layout(&self) -> Layout;

    /// Returns the drawing as an SVG document, in the colours of the reader's light or dark scheme.
    ///
    /// This is [`Layout::svg`] of [`layout`](Self::layout).
    #[must_use]
    fn svg(&self) -> String {
        self.layout().svg()
    }
}

impl Draw for Graph {
    fn layout(&self) -> Layout {
        let parts = Parts::of(self);
        let placed = rows::place(&parts).unwrap_or_else(|| column::place(&parts));
        placed.layout(self, parts)
    }
}
