//! Drawings of machines: what is in them, and that each graph has one.

mod content;
mod machines;
mod random;
