//! Calls by key, for packages on top that have another form of call than an operation.

use fom_runtime::{Key, Runtime};

use crate::network::Answering;

/// The most bytes of a call, and of an answer: a message between nodes is not much longer.
pub(crate) const MOST: usize = 64 << 20;

/// A call that the owner of its slot answers.
#[derive(Debug)]
#[non_exhaustive]
pub struct Asked {
    /// The runtime of the slot. It ends when the slot moves, and this handle does not keep it alive.
    pub runtime: Runtime,
    /// The term of the slot: a fencing token for effects outside of the process. The next owner has a greater one.
    pub term: u64,
    /// The key that the caller has named.
    pub key: Key,
    /// What the caller has sent.
    pub body: Vec<u8>,
}

/// Answers the calls of one name, at the owner of the slot of each key. A closure implements this trait.
///
/// An answer is given in a fom of the slot, so no answer is begun after the lease of the node. Calls have no order: a caller that needs one
/// waits for each answer.
pub trait Answers: Send + Sync + 'static {
    /// Answers a call. If the slot moves before the answer is there, the future is dropped, and the next owner gets the call anew.
    ///
    /// A panic, here or in the future, fails the call.
    fn answer(&self, asked: Asked) -> Answering<Vec<u8>>;
}

impl<F, R> Answers for F
where
    F: Fn(Asked) -> R + Send + Sync + 'static,
    R: Future<Output = Vec<u8>> + Send + 'static,
{
    fn answer(&self, asked: Asked) -> Answering<Vec<u8>> {
        Box::pin(self(asked))
    }
}
