//! The command `fom`.

use std::{env, io, process::ExitCode};

fn main() -> ExitCode {
    let (out, errors) = (io::stdout().lock(), io::stderr());
    let mut out = io::BufWriter::new(out);
    ExitCode::from(fom_cli::run(env::args_os(), &mut out, &mut &errors))
}
