//! A fom that outlives its process: saved to a file at every transition, then loaded and resumed by another runtime.
//!
//! `cargo run --example snapshot_restore`

use std::time::Duration;

use fom_runtime::prelude::*;
use serde::{Deserialize, Serialize};

/// A long translation, page by page.
#[derive(Serialize, Deserialize)]
struct Translation {
    pages: Vec<String>,
    done: Vec<String>,
}

#[fom(operation(Translation))]
#[derive(Debug)]
enum Translating {
    #[phase(start, to(Page))]
    Open,
    #[phase(to(Page, Bound))]
    Page { number: usize },
    #[phase(end)]
    Bound,
}

impl TranslatingTransitions for Translation {
    async fn open(&mut self, _: &mut Cx<'_>) -> Result<TranslatingAfterOpen, BoxError> {
        Ok(TranslatingAfterOpen::Page { number: 0 })
    }

    async fn page(
        &mut self,
        cx: &mut Cx<'_>,
        number: &mut usize,
    ) -> Result<TranslatingAfterPage, BoxError> {
        cx.sleep(Duration::from_millis(30)).await;
        // Effects happen at least once: after a restart the page is translated again. So this writes to the page's
        // place and does not append.
        self.done.truncate(*number);
        self.done.push(self.pages[*number].to_uppercase());
        println!("  page {number}");
        Ok(if *number + 1 < self.pages.len() {
            TranslatingAfterPage::Page {
                number: *number + 1,
            }
        } else {
            TranslatingAfterPage::Bound
        })
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), BoxError> {
    let file = std::env::temp_dir().join(format!("fom-translation-{}", std::process::id()));
    let work = Translation {
        pages: ["once", "upon", "a", "time"].map(str::to_owned).to_vec(),
        done: Vec::new(),
    };

    println!("first process:");
    {
        let runtime = Runtime::new()?;
        let to = file.clone();
        let _saving = runtime.listen_to::<Translation>(move |transition| {
            // The write is small and local; a slow disk would hold up the locality.
            if let Ok(snapshot) = transition.snapshot() {
                std::fs::write(&to, snapshot.as_bytes()).expect("the temporary folder is writable");
            }
        });
        let handle = runtime.submit(work).start()?;
        tokio::time::sleep(Duration::from_millis(75)).await;
        // Pull the plug.
        runtime
            .shutdown(Shutdown::Now, Duration::from_secs(1))
            .await;
        match handle.await {
            Err(failure) => println!("  {failure}"),
            Ok(_) => println!("  it was faster than the plug"),
        }
    }

    println!("second process:");
    let snapshot = Snapshot::from_bytes(std::fs::read(&file)?)?;
    println!(
        "  {} bytes, {} in {}",
        snapshot.as_bytes().len(),
        snapshot.machine()?,
        snapshot.phase()?
    );
    let runtime = Runtime::new()?;
    let ended = runtime.resume::<Translation>(&snapshot)?.await?;
    println!("  {:?}", ended.operation.done);
    assert_eq!(ended.operation.done, ["ONCE", "UPON", "A", "TIME"]);

    let mut damaged = snapshot.as_bytes().to_vec();
    damaged[20] ^= 1;
    println!(
        "one bit wrong: {}",
        Snapshot::from_bytes(damaged).unwrap_err()
    );
    std::fs::remove_file(&file)?;
    Ok(())
}
