//! An order service: axum in front, fom in the middle, SQLite and a payment provider behind.

pub mod nodes;
pub mod order;
pub mod progress;
pub mod provider;
pub mod serve;
pub mod shop;
pub mod web;
