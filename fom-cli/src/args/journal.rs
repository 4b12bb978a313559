//! The command line of the commands for a journal.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Commands for a journal. They need no program and no code of it.
#[derive(Debug, Subcommand)]
pub(crate) enum Journal {
    /// Lists the foms that have not ended, and those that failed.
    List(List),
    /// Shows everything about one fom: its phase, its values, its failed attempts.
    Show(Show),
    /// Counts the records by type and phase.
    Stats(Place),
    /// Reads everything and reports damage. Status 1 if there is any.
    Verify(Place),
    /// Prints all records as JSON, one a line.
    Dump(Place),
    /// Writes a fom as a snapshot, which a program can resume.
    Export(Export),
    /// Frees space. It needs the lock, so no program may have the journal open.
    Compact(Place),
}

impl Journal {
    pub(crate) fn is_json(&self) -> bool {
        match self {
            Self::List(list) => list.place.json,
            Self::Show(show) => show.place.json,
            Self::Export(export) => export.place.json,
            Self::Stats(place) | Self::Verify(place) | Self::Dump(place) | Self::Compact(place) => {
                place.json
            }
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct Place {
    /// The directory of the journal.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Prints JSON: one object a line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Only foms of this operation type.
    #[arg(long, value_name = "NAME")]
    pub(crate) operation: Option<String>,
    /// Only foms in this phase.
    #[arg(long, value_name = "NAME")]
    pub(crate) phase: Option<String>,
    /// Only operations that failed.
    #[arg(long)]
    pub(crate) failed: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Show {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The key or the id of the fom.
    #[arg(value_name = "KEY|ID")]
    pub(crate) fom: String,
}

#[derive(Args, Debug)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The key or the id of the fom.
    #[arg(value_name = "KEY|ID")]
    pub(crate) fom: String,
    /// The file to write. It must not exist.
    #[arg(long, value_name = "FILE")]
    pub(crate) to: PathBuf,
}
