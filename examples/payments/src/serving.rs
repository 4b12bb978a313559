//! What the two programs share: their arguments, and the signal that ends them.

use std::net::SocketAddr;

use lexopt::prelude::*;

/// The arguments of a server.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The number of localities, or of the twin's workers. `None` if the machine decides.
    pub threads: Option<usize>,
}

/// Reads the arguments. `None` if the caller only wants help.
///
/// # Errors
///
/// Says what is wrong with the arguments.
pub fn settings(
    arguments: impl IntoIterator<Item = std::ffi::OsString>,
    threads: &str,
) -> Result<Option<Settings>, lexopt::Error> {
    let mut parser = lexopt::Parser::from_args(arguments);
    let mut settings = Settings {
        listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
        threads: None,
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("listen") => settings.listen = parser.value()?.parse()?,
            Long(name) if name == threads => settings.threads = Some(parser.value()?.parse()?),
            Short('h') | Long("help") => {
                println!("Options:\n  --listen ADDRESS [default: 127.0.0.1:8080]\n  --{threads} N");
                return Ok(None);
            }
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(Some(settings))
}

/// Waits for Ctrl-C or the request to terminate.
///
/// # Errors
///
/// Fails if the system gives no signals.
pub async fn signal() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
