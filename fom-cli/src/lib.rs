//! The command `fom`, as a library: a program can have it inside.
//!
//! These commands look into a program that runs with an inspector, of the package `fom-inspect`:
//!
//! ```text
//! fom list FILTER                the foms of a filter, such as 'type:Call phase:Ring in_phase>30s'
//! fom list --failed              failed operations, and the quarantine
//! fom show KEY|ID --follow       everything about one fom, and what changes
//! fom waits                      which fom waits for which, and the cycles
//! fom graph TYPE                 the machine as text; --svg, --mermaid or --dot
//! fom top                        the program in the terminal
//! fom watch                      warnings as they come
//! fom record FILE                the flight recorder, for Perfetto
//! fom cancel | wake | retry KEY|ID --reason TEXT, or --filter FILTER instead of a fom
//! fom send KEY|ID EVENT --reason TEXT
//! fom suspend | resume TYPE KEY --reason TEXT
//! fom policy ADMISSION POLICY --reason TEXT
//! fom promote ADMISSION CLIENT --reason TEXT
//! ```
//!
//! `--at http://HOST:PORT`, `--at unix:PATH` or the variable `FOM_INSPECT` names the program. The variable
//! `FOM_INSPECT_TOKEN` has the token of the inspector, or `--token-file` names a file with it.
//!
//! These commands look into a journal. The journal contains the names of its types, phases and fields, so they need no
//! code of the program. All but `compact` only read, and work while a program has the journal open.
//!
//! ```text
//! fom journal list DIR           the foms in a journal
//! fom journal show DIR KEY|ID    everything about one fom
//! fom journal stats DIR          counts by type and phase, and the size of the files
//! fom journal verify DIR         reads everything, and reports damage
//! fom journal dump DIR           all records, as JSON
//! fom journal export DIR KEY|ID --to FILE
//! fom journal compact DIR        frees space
//! ```
//!
//! These commands look into a cluster, of the package `fom-cluster`, and change what its nodes do. They ask one node, which
//! `--at HOST:PORT` or the variable `FOM_CLUSTER` names. `FOM_CLUSTER_SECRET` has the secret of the nodes, or `--secret-file` names
//! a file with it. With the feature `tls`, `--certificate`, `--key` and `--authority` encrypt.
//!
//! ```text
//! fom cluster status             the nodes, the slots that are not as usual, and what is wrong
//! fom cluster quarantine         what failed in all slots
//! fom cluster retry | discard SLOT ID
//! fom cluster drain | undrain NODE
//! fom cluster pin SLOT NODE, unpin SLOT
//! ```
//!
//! All commands have `--json`. The exit status is 0 for success, 1 if something was not found, was refused, or is damaged,
//! 2 for a mistake in the command line, and 3 if no inspector or node
//! answers.

// The modules, from the lowest. Each imports only from itself and from modules above it in this list. `tests/layout.rs`
// checks this.
//
// - `args`, `failure`, `filter`, `words`, `seen`, `file`, `holder`, `json`: small parts
// - `output`: results, messages and progress
// - `client`: HTTP
// - `top`, `online`: the commands for a program that runs
// - `journal`: the commands for a journal
// - `cluster`: the commands for a cluster

mod args;
mod client;
mod cluster;
mod failure;
mod file;
mod filter;
mod holder;
mod journal;
mod json;
mod online;
mod output;
mod seen;
mod top;
mod words;

use std::{ffi::OsString, io::Write};

use clap::Parser as _;

/// Runs one command, and returns its exit status. `arguments` begins with the name of the program.
///
/// The result goes to `out`, and messages go to `errors`. Progress is shown only if the process's error output is a
/// terminal. If the process's output is a terminal, `fom top` draws there until the user ends it.
///
/// # Panics
///
/// Panics if a task of tokio calls this with a command for a program that runs: these commands block the thread.
pub fn run<I, A>(arguments: I, out: &mut dyn Write, errors: &mut dyn Write) -> u8
where
    I: IntoIterator<Item = A>,
    A: Into<OsString> + Clone,
{
    let command = match args::Command::try_parse_from(arguments) {
        Ok(command) => command,
        Err(error) => {
            let is_mistake = error.use_stderr();
            let text = error.render();
            let _ = match is_mistake {
                true => write!(errors, "{text}"),
                false => write!(out, "{text}").and_then(|()| out.flush()),
            };
            return if is_mistake { failure::USAGE } else { 0 };
        }
    };
    let mut output = output::Output::new(out, errors, command.is_json());
    let done = match &command {
        args::Command::Cluster(command) => cluster::run(command, &mut output),
        args::Command::Journal(command) => journal::run(command, &mut output),
        args::Command::Online(command) => online::run(command, &mut output),
    };
    let done = done.and_then(|status| {
        output.flush()?;
        Ok(status)
    });
    match done {
        Ok(status) => status,
        Err(failure) => output.fail(&failure),
    }
}

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
