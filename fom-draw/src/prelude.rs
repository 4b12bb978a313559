//! The name that a program needs to draw a graph.

pub use crate::draw::Draw;
