//! `kv`: see `--help`.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use kv::cli::{self, Order};
use kv::{Server, Settings};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let done = match cli::read(std::env::args_os().skip(1)) {
        Err(error) => {
            eprintln!("kv: {error}\nTry kv --help.");
            return ExitCode::from(2);
        }
        Ok(Order::Print(text)) => io::stdout().write_all(text.as_bytes()).map_err(Into::into),
        Ok(Order::Serve { settings, drain }) => serve(*settings, drain).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kv: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves until a signal.
async fn serve(settings: Settings, drain: Duration) -> Result<(), Box<dyn std::error::Error>> {
    use tokio::signal::unix::{SignalKind, signal};
    // Before anything starts that a signal could end.
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let directory = settings.directory.clone();
    let server = Server::start(settings).await?;
    if let Some(directory) = directory {
        println!(
            "{} keys came back from {}",
            server.loaded(),
            directory.display()
        );
    }
    println!(
        "kv on {}, {} localities; Ctrl-C ends it",
        server.local(),
        server.runtime().localities()
    );
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    println!("\nending: what was taken is answered, and all that has changed is written");
    let report = server.stop(drain).await;
    for fom in &report.remained {
        println!(
            "had not ended: {} {} in {}",
            fom.operation, fom.id, fom.phase
        );
    }
    print!("{}", server.runtime().operations());
    Ok(())
}
