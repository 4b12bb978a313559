//! The code of the book and of the README, so that `cargo test` compiles and runs it.
//!
//! `build.rs` writes a module for each chapter, with the chapter as its documentation; this file only takes them
//! in. They are there for the documentation tests alone.

#[cfg(doctest)]
mod chapters {
    include!(concat!(env!("OUT_DIR"), "/chapters.rs"));
}

/// Compiles a machine with keywords for all names, in an edition where `gen` is an ordinary name.
#[cfg(doctest)]
#[doc = concat!("```edition2021\n", include_str!("../tests/ui/pass/keywords.rs"), "\n```")]
mod keywords_in_edition_2021 {}
