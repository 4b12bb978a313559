//! What the requests of one key may do together.

use std::fmt;

/// What the requests of one key may do together. By default nothing: one runs after the other.
///
/// ```
/// use fom_patterns::{prelude::*, streams::{KeyedStream, StreamOptions, StreamRules}};
///
/// struct Write { lines: Vec<String> }
///
/// #[fom(operation(Write), transient)]
/// enum Writing {
///     #[phase(start, to(Done))]
///     Append,
///     #[phase(end)]
///     Done,
/// }
///
/// impl WritingTransitions for Write {
///     async fn append(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
///         println!("{} lines at once", self.lines.len());
///         Ok(())
///     }
/// }
///
/// let runtime = Runtime::builder().localities(1).build()?;
/// let rules = StreamRules::default().merge(|write: &mut Write, next| {
///     if write.lines.len() + next.lines.len() > 100 {
///         return Some(next);
///     }
///     write.lines.extend(next.lines);
///     None
/// });
/// let files = KeyedStream::with_rules(&runtime, StreamOptions::default(), rules);
/// files.push("a.txt", Write { lines: vec!["hello".to_owned()] })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct StreamRules<O> {
    pub(super) merge: Option<Merge<O>>,
    pub(super) beside: Option<fn(&O) -> bool>,
}

/// Takes the second request into the first, or returns it.
pub(super) type Merge<O> = fn(&mut O, O) -> Option<O>;

impl<O> Default for StreamRules<O> {
    fn default() -> Self {
        Self {
            merge: None,
            beside: None,
        }
    }
}

impl<O> Clone for StreamRules<O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for StreamRules<O> {}

impl<O> fmt::Debug for StreamRules<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamRules")
            .field("merge", &self.merge.is_some())
            .field("beside", &self.beside.is_some())
            .finish()
    }
}

impl<O> StreamRules<O> {
    /// Makes batches: a request that has its turn takes in the requests of its key that queue behind it, in their order.
    /// `merge` moves the data of the next request into the first one and returns `None`. Or it returns the next request,
    /// which then waits for its own turn, and so do all after it. Nothing waits for a batch to fill.
    ///
    /// The batch runs as one fom. A request that was merged counts as ended. If `merge` panics, that next request is
    /// gone, and the batch runs without it.
    #[must_use]
    pub fn merge(mut self, merge: fn(&mut O, O) -> Option<O>) -> Self {
        self.merge = Some(merge);
        self
    }

    /// Lets requests run beside the others of their key. A request for which `beside` returns `true` waits for no request
    /// of its key, and none waits for it. With `|_| true`, the key only chooses the locality.
    ///
    /// In the locality, the requests still take turns. They overlap where one of them waits.
    #[must_use]
    pub fn beside(mut self, beside: fn(&O) -> bool) -> Self {
        self.beside = Some(beside);
        self
    }
}
