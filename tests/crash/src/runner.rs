//! The parent: starts the child, has it killed or kills it, starts it again on the same journal, and reads along.

use std::{
    collections::BTreeMap,
    fmt, fs,
    fs::File,
    io::{self, BufRead, BufReader, Seek, SeekFrom},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use crate::{
    checker::{Checker, Counts, Violation},
    history::{History, whole},
    journals::Broken,
    points::Point,
};

/// How often the parent looks whether the child has died.
const LOOK: Duration = Duration::from_millis(1);

/// How long a child that is to die at a point of its own has to come there.
const REACH: Duration = Duration::from_millis(400);

/// How long a child may take until nothing is in flight any more.
const DRAIN: Duration = Duration::from_secs(90);

/// Operations that are submitted with their ids again in each life.
const AGAIN: usize = 6;

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program whose first word is `child`.
    pub child: PathBuf,
    /// Where journal and history are; made, and removed when all went well.
    pub directory: PathBuf,
    /// How many kills.
    pub kills: u64,
    /// It goes on until then, if that is later.
    pub at_least: Duration,
    /// What the points and times are taken from.
    pub seed: u64,
    /// How the journal is broken.
    pub broken: Broken,
    /// A line now and then.
    pub progress: bool,
}

/// What was found.
#[derive(Debug)]
pub struct Report {
    /// Kills by point, and those that were to be at a point that was not reached.
    pub kills: BTreeMap<String, (u64, u64)>,
    /// How much was checked.
    pub counts: Counts,
    /// What was not kept.
    pub violations: Vec<Violation>,
    /// How long it took.
    pub took: Duration,
    /// How many bytes the journal had at the end.
    pub journal_bytes: u64,
}

impl Report {
    /// How many kills there were.
    pub fn killed(&self) -> u64 {
        self.kills.values().map(|(at, not)| at + not).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.took.as_secs_f64();
        writeln!(f, "{:<28} {:>6} {:>12}", "killed", "there", "on its way")?;
        for (point, (there, elsewhere)) in &self.kills {
            writeln!(f, "{:<28} {there:>6} {elsewhere:>12}", point)?;
        }
        let of = |total: fn(&(u64, u64)) -> u64| self.kills.values().map(total).sum::<u64>();
        writeln!(
            f,
            "{:<28} {:>6} {:>12}",
            "all",
            of(|kills| kills.0),
            of(|kills| kills.1)
        )?;
        let counts = &self.counts;
        writeln!(
            f,
            "\n{} kills in {seconds:.1} s, {:.1} a second; the journal has {} bytes",
            self.killed(),
            self.killed() as f64 / seconds,
            self.journal_bytes
        )?;
        writeln!(
            f,
            "{} transitions of {} operations were heard of; {} foms came back, {} of them one transition further than \
             anybody had heard of; {} ended unheard",
            counts.transitions,
            counts.operations,
            counts.resumed,
            counts.unheard,
            counts.ended_unheard
        )?;
        writeln!(
            f,
            "{} effects, {} of them repeated under the same key; {} outcomes told, {} of them again",
            counts.effects, counts.repeated, counts.outcomes, counts.outcomes_again
        )?;
        match self.violations.len() {
            0 => write!(f, "no promise was broken"),
            broken => write!(f, "{broken} times a promise was broken"),
        }
    }
}

/// Kills and starts again until it is enough, then lets all end, and says what was found. It stops at the first violation.
///
/// # Errors
///
/// What the system says when there is no child or no history.
pub fn run(options: &Options) -> io::Result<Report> {
    fs::create_dir_all(&options.directory)?;
    let mut parent = Parent::new(options)?;
    let begun = Instant::now();
    while parent.checker.violations().is_empty()
        && (parent.life < options.kills || begun.elapsed() < options.at_least)
    {
        parent.live_and_die()?;
        if options.progress && parent.life.is_multiple_of(25) {
            let counts = parent.checker.counts();
            println!(
                "{:>6} kills, {:>5.1} s: {} transitions, {} came back, {} violations",
                parent.life,
                begun.elapsed().as_secs_f64(),
                counts.transitions,
                counts.resumed,
                parent.checker.violations().len()
            );
        }
    }
    if parent.checker.violations().is_empty() {
        parent.live_to_the_end()?;
    }
    let report = Report {
        kills: parent.kills,
        counts: parent.checker.counts(),
        violations: parent.checker.violations().to_vec(),
        took: begun.elapsed(),
        journal_bytes: size(&options.directory.join("journal"))?,
    };
    if report.violations.is_empty() {
        fs::remove_dir_all(&options.directory)?;
    }
    Ok(report)
}

fn size(directory: &Path) -> io::Result<u64> {
    fs::read_dir(directory)?
        .map(|entry| Ok(entry?.metadata()?.len()))
        .sum()
}

struct Parent<'a> {
    options: &'a Options,
    history: History,
    read: BufReader<File>,
    checker: Checker,
    kills: BTreeMap<String, (u64, u64)>,
    random: u64,
    life: u64,
    points: Vec<(Point, u64)>,
}

impl<'a> Parent<'a> {
    fn new(options: &'a Options) -> io::Result<Self> {
        let path = options.directory.join("history");
        let history = History::open(&path)?;
        Ok(Self {
            options,
            history,
            read: BufReader::with_capacity(1 << 20, File::open(&path)?),
            checker: Checker::new(),
            kills: BTreeMap::new(),
            random: options.seed | 1,
            life: 0,
            points: Point::all(),
        })
    }

    /// A number below `below`; from the seed, by xorshift.
    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % below.max(1)
    }

    fn start(&mut self, point: Point, nth: u64, drain: bool) -> io::Result<Child> {
        self.life += 1;
        self.history
            .line(format_args!("L {} {point} {nth}", self.life));
        let mut again: Vec<_> = self.checker.submitted_once(false).collect();
        if !drain {
            // The latest, and some whose outcome is known.
            again.reverse();
            again.truncate(AGAIN);
            let told: Vec<_> = self.checker.submitted_once(true).collect();
            for _ in 0..AGAIN.min(told.len()) {
                let one = self.random(told.len() as u64) as usize;
                again.push(told[one]);
            }
        }
        again.sort_unstable();
        again.dedup();
        let again: Vec<_> = again
            .iter()
            .map(|(letter, n)| format!("{letter}{n}"))
            .collect();
        Command::new(&self.options.child)
            .arg("child")
            .arg(self.options.directory.join("journal"))
            .arg(self.options.directory.join("history"))
            .args([
                self.life.to_string(),
                point.to_string(),
                nth.to_string(),
                self.options.broken.to_string(),
                if drain { "drain" } else { "load" }.to_owned(),
                again.join(","),
            ])
            .stdin(Stdio::null())
            .spawn()
    }

    fn live_and_die(&mut self) -> io::Result<()> {
        // Every other one from outside, the rest at all points in turn.
        let turn = self.life / 2;
        let (point, times) = match self.life % 3 {
            0 => (Point::Outside, 1),
            _ => self.points[(turn % self.points.len() as u64) as usize],
        };
        let nth = 1 + self.random(times);
        // From the very beginning of the process on.
        let time = match point {
            Point::Outside => Duration::from_micros(2_000 + self.random(150_000)),
            Point::FullDisk | Point::FailedSync => {
                Duration::from_micros(60_000 + self.random(100_000))
            }
            _ => REACH,
        };
        let mut child = self.start(point, nth, false)?;
        let died = wait(&mut child, time)?;
        if died.is_none() {
            child.kill()?;
            child.wait()?;
        }
        self.history.break_line()?;
        let reached = self.read_along()?;
        let kills = self.kills.entry(point.to_string()).or_default();
        let from_outside = matches!(point, Point::Outside | Point::FullDisk | Point::FailedSync);
        if from_outside && died.is_none() || reached {
            kills.0 += 1;
        } else if died.is_none() {
            kills.1 += 1;
        }
        if let Some(status) = died.filter(|_| !reached) {
            self.ended_by_itself(status);
        }
        Ok(())
    }

    fn ended_by_itself(&mut self, status: ExitStatus) {
        self.checker
            .line(&format!("X the child ended by itself: {status} ;"));
    }

    fn live_to_the_end(&mut self) -> io::Result<()> {
        let mut child = self.start(Point::Outside, 1, true)?;
        match wait(&mut child, DRAIN)? {
            Some(status) if status.success() => {}
            Some(status) => self.ended_by_itself(status),
            None => {
                child.kill()?;
                child.wait()?;
                self.checker.line("X the child did not come to an end ;");
            }
        }
        self.history.break_line()?;
        self.read_along()?;
        self.checker.finish();
        Ok(())
    }

    /// Gives the checker what was written since. Whether the child said that it dies.
    fn read_along(&mut self) -> io::Result<bool> {
        let mut reached = false;
        let mut line = String::new();
        loop {
            line.clear();
            if self.read.read_line(&mut line)? == 0 {
                break;
            }
            let line = line.trim_end_matches('\n');
            if line.is_empty() {
                continue;
            }
            reached |= whole(line).is_some_and(|line| line.starts_with("! "));
            self.checker.line(line);
        }
        // The end of the file is remembered otherwise.
        let at = self.read.stream_position()?;
        self.read.seek(SeekFrom::Start(at))?;
        Ok(reached)
    }
}

/// Waits for the child for so long.
fn wait(child: &mut Child, time: Duration) -> io::Result<Option<ExitStatus>> {
    let until = Instant::now() + time;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        std::thread::sleep(left.min(LOOK));
    }
}
