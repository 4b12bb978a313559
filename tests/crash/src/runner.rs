//! The parent: starts the child, kills it or lets it kill itself, restarts it on the same journal, and reads its
//! history along the way.

use std::{
    collections::BTreeMap,
    fmt, fs,
    fs::File,
    io::{self, BufRead, BufReader, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use crate::{
    checker::{Checker, Counts, Violation},
    history::{History, now, whole},
    journals::Broken,
    means::Means,
    missing::{self, Missing},
    orders::Orders,
    points::Point,
    random::Random,
    work::WITHIN,
};

/// How often the parent checks whether the child has died.
const LOOK: Duration = Duration::from_millis(1);

/// How long a child with a kill point has to reach it.
const REACH: Duration = Duration::from_millis(400);

/// How long a child may take until nothing is in flight.
const DRAIN: Duration = Duration::from_secs(90);

/// The words of a child in a power cut before its point.
const CUT: &str = "power cut";

/// The number of operations submitted again with their ids in each life.
const AGAIN: usize = 6;

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program, which runs the child if its first argument is `child`.
    pub child: PathBuf,
    /// The directory of the journal and the history. It is created, and removed after a run without violations.
    pub directory: PathBuf,
    /// The number of kills.
    pub kills: u64,
    /// The least duration of the run. The run continues past `kills` until then.
    pub at_least: Duration,
    /// The seed of the points and times.
    pub seed: u64,
    /// How the journal is broken.
    pub broken: Broken,
    /// How each life of the child ends.
    pub means: Means,
    /// Whether to print a line now and then.
    pub progress: bool,
}

/// The results of a run.
#[derive(Debug)]
pub struct Report {
    /// The kills by point: the number of kills at the point, and of kills before it.
    pub kills: BTreeMap<String, (u64, u64)>,
    /// How much was checked.
    pub counts: Counts,
    /// The results of the copies that lost a file.
    pub missing: Missing,
    /// The broken promises.
    pub violations: Vec<Violation>,
    /// The duration of the run.
    pub took: Duration,
    /// The size of the journal at the end, in bytes.
    pub journal_bytes: u64,
}

impl Report {
    /// Returns the number of kills.
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
            "{} transitions of {} operations were reported; {} foms came back, {} of them one transition further than \
             was reported; {} ended unreported",
            counts.transitions,
            counts.operations,
            counts.resumed,
            counts.unreported,
            counts.ended_unreported
        )?;
        writeln!(
            f,
            "{} effects, {} of them repeated under the same key; {} outcomes told, {} of them again",
            counts.effects, counts.repeated, counts.outcomes, counts.outcomes_again
        )?;
        writeln!(
            f,
            "{} operations accepted, {} durable sends acknowledged, {} outcomes looked up",
            counts.accepted, counts.sent, counts.found
        )?;
        writeln!(
            f,
            "{} locks were had; {} deadlines passed, {} of them while nothing ran; {} lazy foms lost their last transitions; \
             {} were quarantined for a while; {} times a failed one was looked for, and {} times one was tried again; \
             {} were dropped, because too many failed at once",
            counts.locks,
            counts.late,
            counts.overdue,
            counts.lost_lazily,
            counts.quarantined,
            counts.failed,
            counts.tried_again,
            counts.dropped
        )?;
        writeln!(
            f,
            "a file was taken away from {} copies of the journal: {} said so, nothing was missing in {}",
            self.missing.told + self.missing.whole,
            self.missing.told,
            self.missing.whole
        )?;
        match self.violations.len() {
            0 => write!(f, "no promise was broken"),
            broken => write!(f, "{broken} times a promise was broken"),
        }
    }
}

/// Kills and restarts the child until the options are met, then lets all operations end, and returns the results. Stops
/// at the first violation.
///
/// # Errors
///
/// Fails with the error of the system if there is no child or no history.
pub fn run(options: &Options) -> io::Result<Report> {
    fs::create_dir_all(&options.directory)?;
    if fs::exists(options.directory.join("history"))? {
        // That history belongs to other children.
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "there is a history of another run in the directory; look at it and remove it",
        ));
    }
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
        missing: parent.missing,
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
    random: Random,
    life: u64,
    points: Vec<(Point, u64)>,
    missing: Missing,
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
            random: Random::new(options.seed),
            life: 0,
            points: Point::all(),
            missing: Missing::default(),
        })
    }

    /// Makes the orders of the next life. All but the point follow from the seed. The operations submitted again also
    /// depend on the history.
    fn orders(&mut self, point: Point, nth: u64, drain: bool, time: Duration) -> Orders {
        self.life += 1;
        let random = &mut self.random;
        let localities = 1 + random.below(3) as usize;
        let resident = random.one_of(&[usize::MAX, usize::MAX, 40, 5]);
        let has_faults = match self.options.means {
            Means::Kill => random.below(4) == 0,
            Means::PowerCut => false,
            Means::FailingDisk | Means::FullDisk => true,
        };
        let faults = random.any().max(1) * u64::from(has_faults);
        let old_for = (random.below(4) == 0).then(|| random.below(60));
        let picks: [u64; AGAIN] = std::array::from_fn(|_| random.any());
        let mut again: Vec<_> = self.checker.submitted_once(false).collect();
        if !drain {
            // The latest operations with unknown outcomes, and some with known outcomes.
            again.reverse();
            again.truncate(AGAIN);
            let told: Vec<_> = self.checker.submitted_once(true).collect();
            let told = picks
                .iter()
                .filter(|_| !told.is_empty())
                .map(|pick| told[(pick % told.len() as u64) as usize]);
            again.extend(told);
        }
        again.sort_unstable();
        again.dedup();
        Orders {
            journal: self.options.directory.join("journal"),
            history: self.options.directory.join("history"),
            life: self.life,
            point,
            nth,
            broken: self.options.broken,
            means: self.options.means,
            cut_after: time.as_micros() as u64,
            luck: self.random.any(),
            drain,
            localities,
            // Some foms wait for others that may rest. In the last life none rests, so none waits forever.
            resident: if drain { usize::MAX } else { resident },
            faults: if drain { 0 } else { faults },
            old_for: old_for.filter(|_| !drain),
            again,
        }
    }

    fn start(&mut self, orders: &Orders) -> io::Result<Child> {
        self.history.line(format_args!(
            "L {} {} {}, {} localities, {} resident, faults {}, old for {:?}",
            orders.life,
            orders.point,
            orders.nth,
            orders.localities,
            orders.resident,
            orders.faults,
            orders.old_for
        ));
        let mut child = Command::new(&self.options.child)
            .arg("child")
            .stdin(Stdio::piped())
            .spawn()?;
        // The orders of a long run may be longer than a command line.
        if let Some(mut input) = child.stdin.take() {
            // If the child is gone already, its status says so.
            let _ = input.write_all(orders.words().join("\n").as_bytes());
        }
        Ok(child)
    }

    fn live_and_die(&mut self) -> io::Result<()> {
        // Every third kill comes from outside. The rest use all points in turn.
        let turn = self.life - self.life.div_ceil(3);
        let (point, times) = match self.life % 3 {
            0 => (Point::Outside, 1),
            _ => self.points[(turn % self.points.len() as u64) as usize],
        };
        let nth = 1 + self.random.below(times);
        // The time starts at the very beginning of the process.
        let time = match point {
            Point::Outside => Duration::from_micros(2_000 + self.random.below(150_000)),
            Point::FullDisk | Point::FailedSync => {
                Duration::from_micros(60_000 + self.random.below(100_000))
            }
            _ => REACH,
        };
        // Now and then no process runs for so long that deadlines pass.
        if self.random.below(10) == 0 {
            std::thread::sleep(WITHIN * 5 / 2);
        }
        let orders = self.orders(point, nth, false, time);
        let mut child = self.start(&orders)?;
        let died = wait(
            &mut child,
            match self.options.means {
                // A power cut has its own clock.
                Means::PowerCut => DRAIN,
                _ => time,
            },
        )?;
        if died.is_none() {
            child.kill()?;
            child.wait()?;
        }
        self.history.break_line()?;
        let said = self.read_along()?;
        let kills = self.kills.entry(point.to_string()).or_default();
        let is_there = said.as_ref().is_some_and(|said| !said.starts_with(CUT));
        if is_there || point.is_outside() && (died.is_none() || said.is_some()) {
            kills.0 += 1;
        } else if died.is_none() || said.is_some() {
            kills.1 += 1;
        }
        match died {
            Some(status) if said.is_none() => self.ended_by_itself(status),
            None if self.options.means == Means::PowerCut => {
                self.say(format_args!("X the power of the child did not go"));
            }
            _ => {}
        }
        self.look_for_missing()
    }

    /// Removes files from copies of the journal that the child left.
    fn look_for_missing(&mut self) -> io::Result<()> {
        if self.options.broken != Broken::Not {
            return Ok(());
        }
        let directory = &self.options.directory;
        let (journal, copy) = (directory.join("journal"), directory.join("copy"));
        if let Some(what) = missing::look(&journal, &copy, &mut self.random, &mut self.missing)? {
            self.checker.missed(what);
        }
        Ok(())
    }

    fn ended_by_itself(&mut self, status: ExitStatus) {
        self.say(format_args!("X the child ended by itself: {status}"));
    }

    /// Tells the checker what the parent itself knows.
    fn say(&mut self, what: fmt::Arguments<'_>) {
        let line = format!("{} {what} ;", now().as_micros());
        self.checker.line(&line);
    }

    fn live_to_the_end(&mut self) -> io::Result<()> {
        let orders = self.orders(Point::Outside, 1, true, DRAIN);
        let mut child = self.start(&orders)?;
        match wait(&mut child, DRAIN)? {
            Some(status) if status.success() => {}
            Some(status) => self.ended_by_itself(status),
            None => {
                child.kill()?;
                child.wait()?;
                self.say(format_args!("X the child did not come to an end"));
            }
        }
        self.history.break_line()?;
        self.read_along()?;
        self.checker.finish();
        Ok(())
    }

    /// Passes the new lines to the checker. Returns the point at which the child said that it dies.
    fn read_along(&mut self) -> io::Result<Option<String>> {
        let mut said = None;
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
            if let Some(point) = whole(line).and_then(|(_, line)| line.strip_prefix("! ")) {
                said = Some(point.to_owned());
            }
            self.checker.line(line);
        }
        // Clears the remembered end of the file.
        let at = self.read.stream_position()?;
        self.read.seek(SeekFrom::Start(at))?;
        Ok(said)
    }
}

/// Waits at most `time` for the child.
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
