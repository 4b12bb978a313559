//! `fom record`.

use std::{fs, io::Write as _, path::Path};

use serde_json::json;

use crate::{client::Client, failure::Failure, file::create, output::Output};

pub(super) fn run(client: &Client, to: &Path, output: &mut Output<'_>) -> Result<(), Failure> {
    let cannot =
        |error: std::io::Error| Failure::new(format!("cannot write {}: {error}", to.display()));
    let mut file = create(to).map_err(cannot)?;
    output.result_comes_last();
    output.expect_bytes();
    let written = client.download("recorder/trace", &mut |piece| {
        output.advance_by(piece.len() as u64);
        file.write_all(piece)
    });
    output.end_progress();
    let written = written.and_then(|bytes| match file.sync_all() {
        Ok(()) => Ok(bytes),
        Err(error) => Err(error.into()),
    });
    let bytes = written.map_err(|failure| {
        // Half a recording is of no use.
        let _ = fs::remove_file(to);
        match failure {
            Failure::Output(error) => cannot(error),
            failure => failure,
        }
    })?;
    let file = to.display().to_string();
    match output.is_json() {
        true => output.object(&json!({"file": file, "bytes": bytes}))?,
        false => output.line(&format!(
            "{bytes} bytes in {file}; open it at ui.perfetto.dev"
        ))?,
    }
    Ok(())
}
