//! `fom journal export`.

use std::{
    io::{self, Write as _},
    path::Path,
};

use fom_durable::reading::SavedFom;
use fom_runtime::FomId;
use serde_json::json;

use super::{fom_of, is_named, pass};
use crate::{args::Export, failure::Failure, file::create, output::Output};

pub(super) fn run(export: &Export, output: &mut Output<'_>) -> Result<u8, Failure> {
    let (name, directory) = (&export.fom, &export.place.directory);
    let mut found = Vec::new();
    let pass = pass::over(directory, output, &mut |_, record| {
        // Two are enough to refuse.
        if is_named(record, name) && found.len() < 2 {
            let snapshot = fom_of(record).and_then(SavedFom::snapshot);
            found.push((record.id, snapshot));
        }
        Ok(())
    })?;
    let status = pass.report(output);
    let directory = directory.display();
    let (id, snapshot) = match &mut found[..] {
        [] => {
            return Err(Failure::new(format!(
                "no fom in {directory} has the key or id `{name}`"
            )));
        }
        [(id, snapshot)] => (*id, snapshot.take()),
        _ => {
            return Err(Failure::new(format!(
                "several foms in {directory} have the key `{name}`; write an id instead, which `fom journal list` shows"
            )));
        }
    };
    let Some(snapshot) = snapshot else {
        return Err(Failure::new(format!(
            "the operation `{name}` could not be saved, so there is no snapshot of it"
        )));
    };
    let bytes = snapshot.as_bytes();
    let to = &export.to;
    write(to, bytes)
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", to.display())))?;
    let id = id.map(FomId::get);
    match output.is_json() {
        true => output
            .object(&json!({ "id": id, "file": to.display().to_string(), "bytes": bytes.len() }))?,
        false => output.line(&format!("{} bytes in {}", bytes.len(), to.display()))?,
    }
    Ok(status)
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
