//! The disk of a child with a power cut. It is in memory, and a cut writes the remains to the real disk.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{forgetful::Forgetful, history::History, random::Random};

/// The disk, with the seed that decides about the bytes that are not synced.
#[derive(Clone)]
pub(crate) struct Power {
    pub(crate) disk: Forgetful,
    directory: PathBuf,
    luck: u64,
    history: History,
}

impl Power {
    /// Reads the directory into memory. All of it is durable.
    pub(crate) fn on(directory: &Path, luck: u64, history: &History) -> io::Result<Self> {
        let directory = std::path::absolute(directory)?;
        fs::create_dir_all(&directory)?;
        let mut files = Vec::new();
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            files.push((path.clone(), fs::read(path)?));
        }
        Ok(Self {
            disk: Forgetful::holding(files),
            directory,
            luck,
            history: history.clone(),
        })
    }

    /// The power fails at this moment. The disk syncs nothing more: each caller of it waits until the process is dead.
    pub(crate) fn cut(&self, point: &str) -> ! {
        let (mut random, luck) = (Random::new(self.luck), self.luck % 4);
        let survives = move || match luck {
            0 => false,
            1 => true,
            _ => random.below(8) > 2,
        };
        self.disk.fall(survives, |files| {
            self.history.line(format_args!("! {point}"));
            if let Err(error) = self.leave(files) {
                eprintln!("what the disk has cannot be written: {error}");
                std::process::exit(3);
            }
            // SAFETY: a system call with plain numbers, which ends this process.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
            loop {
                std::thread::park();
            }
        })
    }

    fn leave(&self, files: Vec<(PathBuf, Vec<u8>)>) -> io::Result<()> {
        for entry in fs::read_dir(&self.directory)? {
            fs::remove_file(entry?.path())?;
        }
        files
            .into_iter()
            .try_for_each(|(path, bytes)| fs::write(path, bytes))
    }
}
