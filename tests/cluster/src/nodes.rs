//! The processes of the nodes, and the client of the cluster: it asks any node, and asks another one if there is no answer.

use std::{
    collections::HashMap,
    env, fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Stdio},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
        mpsc::{Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use crate::space::{Space, signal};

/// How long the client waits for one answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it asks again. No fault lasts for so long.
pub(crate) const LIMIT: Duration = Duration::from_secs(480);

#[derive(Clone, Debug)]
pub(crate) struct Nodes(Arc<Vec<Node>>);

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) space: Space,
    config: String,
    log: PathBuf,
    running: Mutex<Running>,
    next: AtomicU64,
}

#[derive(Debug, Default)]
struct Running {
    process: Option<Child>,
    input: Option<ChildStdin>,
    /// The commands without an answer.
    waiting: HashMap<u64, Sender<Result<String, String>>>,
    /// Counts the processes of this node.
    life: u64,
    has_joined: bool,
    /// Whether the node is of the next release.
    is_next: bool,
}

/// What a process sees of the clocks: seconds since the machine was started, and seconds that the calendar is off.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clocks {
    pub(crate) boot: u64,
    pub(crate) wall: i32,
}

impl Nodes {
    pub(crate) fn new(spaces: &[Space], config: &str, log: &Path) -> Self {
        let node = |(name, space): (&str, &Space)| Node {
            name: name.to_owned(),
            space: space.clone(),
            config: config.to_owned(),
            log: log.to_owned(),
            running: Mutex::default(),
            next: AtomicU64::new(1),
        };
        Self(Arc::new(
            ["a", "b", "c"].into_iter().zip(spaces).map(node).collect(),
        ))
    }

    pub(crate) fn all(&self) -> &[Node] {
        &self.0
    }

    pub(crate) fn start(&self, at: usize, clocks: Clocks) -> Result<(), String> {
        let node = &self.0[at];
        let mut words = ["unshare", "--time", "--fork", "--kill-child=KILL"]
            .map(str::to_owned)
            .to_vec();
        let boot = clocks.boot.to_string();
        words.extend([
            "--boottime".to_owned(),
            boot.clone(),
            "--monotonic".to_owned(),
            boot,
        ]);
        if can_shift_wall() {
            node.shift_wall(clocks.wall)?;
            // The program reads the calendar from the file, once in a second.
            let read = ["faketime", "-f", "+0s", "env", "--unset=FAKETIME"];
            words.extend(read.map(str::to_owned));
        }
        let own = match node.is_next() {
            true => next()?,
            false => env::current_exe().map_err(|error| error.to_string())?,
        };
        words.extend([
            own.display().to_string(),
            "node".to_owned(),
            node.config.clone(),
            node.name.clone(),
        ]);
        words.extend([
            format!("{}:7000", node.space.address),
            node.log.display().to_string(),
        ]);
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let mut command = node.space.command(&words);
        command.env("FOM_CLUSTER_SECRET", "a secret of the harness");
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        command.env("FAKETIME_CACHE_DURATION", "1");
        command.env("FAKETIME_TIMESTAMP_FILE", node.calendar());
        let errors = fs::File::options()
            .append(true)
            .create(true)
            .open(node.log.with_extension(&node.name));
        command.stderr(errors.map_err(|error| error.to_string())?);
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = spawned.map_err(|error| error.to_string())?;
        let output = process.stdout.take();
        let life = {
            let mut running = node.running();
            running.input = process.stdin.take();
            running.process = Some(process);
            running.has_joined = false;
            running.life += 1;
            running.life
        };
        let nodes = self.clone();
        thread::spawn(move || nodes.0[at].read(life, output));
        Ok(())
    }

    /// Asks a node, and then the others, until one carries the command out.
    ///
    /// # Errors
    ///
    /// Fails with what the last node said, if none does for [`LIMIT`].
    pub(crate) fn ask(&self, first: usize, words: &str) -> Result<String, String> {
        self.ask_for(LIMIT, first, words)
    }

    /// As [`ask`](Self::ask), for this time.
    pub(crate) fn ask_for(
        &self,
        limit: Duration,
        first: usize,
        words: &str,
    ) -> Result<String, String> {
        let begun = Instant::now();
        for node in self.0.iter().cycle().skip(first % self.0.len()) {
            match node.ask(words) {
                Ok(told) => return Ok(told),
                Err(why) if begun.elapsed() > limit => {
                    return Err(format!(
                        "`{words}` was not carried out; node {}: {why}",
                        node.name
                    ));
                }
                Err(_) => thread::sleep(Duration::from_millis(200)),
            }
        }
        unreachable!("there are nodes")
    }

    /// Waits until a node is a member.
    pub(crate) fn wait_until_joined(&self, at: usize) -> Result<(), String> {
        let begun = Instant::now();
        while !self.0[at].running().has_joined {
            if begun.elapsed() > LIMIT {
                return Err(format!("node {} does not join", self.0[at].name));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

/// Returns where the program of a node of the next release is.
pub(crate) fn next() -> Result<PathBuf, String> {
    let own = env::current_exe().map_err(|error| error.to_string())?;
    Ok(own.with_file_name("cluster-next"))
}

/// Locks, also after a thread has panicked with the lock.
pub(crate) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Whether a program is installed that shows another calendar to a process (Debian: `faketime`).
pub(crate) fn can_shift_wall() -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|path| path.join("faketime").is_file())
}

impl Node {
    fn running(&self) -> MutexGuard<'_, Running> {
        lock(&self.running)
    }

    /// Reads the answers of a process to their end.
    fn read(&self, life: u64, output: Option<ChildStdout>) {
        for line in output
            .into_iter()
            .flat_map(|output| BufReader::new(output).lines())
        {
            let Ok(line) = line else { break };
            let mut running = self.running();
            if line == "joined" {
                running.has_joined = true;
            }
            let mut words = line.splitn(3, ' ');
            let number = words.next().and_then(|number| number.parse().ok());
            if let Some(waits) = number.and_then(|number: u64| running.waiting.remove(&number)) {
                let is_ended = words.next() == Some("ended");
                let told = words.next().unwrap_or_default().to_owned();
                let _ = waits.send(if is_ended { Ok(told) } else { Err(told) });
            }
        }
        let mut running = self.running();
        if running.life == life {
            running.waiting.clear();
            running.input = None;
            running.has_joined = false;
        }
    }

    fn ask(&self, words: &str) -> Result<String, String> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (tell, told) = channel();
        {
            let mut running = self.running();
            if !running.has_joined {
                return Err("it is no member".to_owned());
            }
            let input = running.input.as_mut().ok_or("it does not run")?;
            let written = writeln!(input, "{number} {words}");
            written.map_err(|error| error.to_string())?;
            running.waiting.insert(number, tell);
        }
        match told.recv_timeout(PATIENCE) {
            Ok(answer) => answer,
            Err(_) => {
                self.running().waiting.remove(&number);
                Err("no answer".to_owned())
            }
        }
    }

    /// Whether the node is of the next release.
    pub(crate) fn is_next(&self) -> bool {
        self.running().is_next
    }

    /// Makes the node one of the next release from its next start on.
    pub(crate) fn upgrade(&self) {
        self.running().is_next = true;
    }

    /// The file that says how far the calendar of the process is off.
    fn calendar(&self) -> PathBuf {
        self.log.with_extension(format!("calendar-{}", self.name))
    }

    /// Shifts the calendar of the process, from its next look at the file on. The other clocks go on.
    pub(crate) fn shift_wall(&self, seconds: i32) -> Result<(), String> {
        let (calendar, next) = (self.calendar(), self.log.with_extension("calendar-next"));
        let written = fs::write(&next, format!("{seconds:+}s\n"));
        // The process never sees a half.
        let shifted = written.and_then(|()| fs::rename(next, calendar));
        shifted.map_err(|error| error.to_string())
    }

    pub(crate) fn signal(&self, name: &str) {
        if let Some(process) = &self.running().process {
            signal(process, name);
        }
    }

    pub(crate) fn kill(&self) {
        let Some(mut process) = self.running().process.take() else {
            return;
        };
        signal(&process, "KILL");
        let _ = process.wait();
    }

    /// Tells the node to leave, and waits until its process has ended.
    pub(crate) fn leave(&self) -> Result<(), String> {
        let process = {
            let mut running = self.running();
            if let Some(input) = &mut running.input {
                let _ = writeln!(input, "leave");
            }
            running.process.take()
        };
        let Some(mut process) = process else {
            return Ok(());
        };
        let begun = Instant::now();
        loop {
            match process.try_wait() {
                Ok(None) if begun.elapsed() < LIMIT => thread::sleep(Duration::from_millis(50)),
                Ok(Some(_)) => return Ok(()),
                _ => {
                    signal(&process, "KILL");
                    let _ = process.wait();
                    return Err(format!("node {} does not leave", self.name));
                }
            }
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}
