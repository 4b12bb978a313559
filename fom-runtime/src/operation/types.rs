//! How a private enum becomes the phases of a public operation.

/// The types of a machine. The parameter is the enum: where that is private, the impl is private too.
#[doc(hidden)]
pub trait OwnTypes<P> {
    type Phase;
    type End;
    type Kind;
}

/// The same types, taken over by an impl that names them in its `where` clause only. `M` stands for the machine.
#[doc(hidden)]
pub trait Types<M> {
    type Phase;
    type End;
    type Kind;
}
