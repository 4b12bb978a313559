//! Draws the machine of a fom: where its phases and edges are, as plain data, and an SVG picture.
//!
//! The graph of an operation, [`Operation::GRAPH`](fom_runtime::Operation::GRAPH), gets two methods from the trait
//! [`Draw`] of the [`prelude`]:
//!
//! - [`svg`](Draw::svg) returns a picture that browsers, GitHub and mdBook show, in the light or dark scheme of the reader.
//! - [`layout`](Draw::layout) returns the places of all parts, for a program that draws by itself. It leaves room for the
//!   number of foms in each phase and for a rate on each edge.
//!
//! No other program is needed. The same graph gives the same drawing each time.
//!
//! # The signs
//!
//! | sign | meaning |
//! | --- | --- |
//! | dot with an arrow | the start |
//! | box with round corners | a phase; `sync` or `blocking` in its corner |
//! | box with two lines | an end |
//! | box with two lines, the outer one dashed, and a cross | an end that is a failure |
//! | line with a filled arrow | an exit of `to(..)` |
//! | dashed line with an open arrow | an exit of `failed(..)` |
//! | ring at the beginning of a line | the function for a missed deadline can take the exit, too |
//! | box around others | a layer's inner operation |
//!
//! Each sign differs in its form, so none needs colours.

mod column;
mod curve;
mod draw;
mod effort;
mod layout;
mod parts;
mod placed;
mod ports;
pub mod prelude;
mod rows;
mod text;

pub use draw::Draw;
pub use layout::{
    Edge, EdgeKind, Group, Layout, Node, NodeKind, Placing, Point, Scheme, StartMark,
};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
