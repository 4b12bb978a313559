//! Processes that run the same program: one has the journal, the others wait. They are killed and paused.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    time::Duration,
};

use fom_durable::prelude::*;
use fom_postgres::Sql;
use serde::{Deserialize, Serialize};

use crate::{SAFE, journal_with, kit::limited, server::Server};

/// Set in a process that runs the program.
const CHILD: &str = "FOM_POSTGRES_CHILD";
/// Set if each step is noted in a table, in the transaction of its commit.
const LEDGER: &str = "FOM_POSTGRES_LEDGER";
pub(crate) const NOTE: &str = "INSERT INTO ledger (number, step) VALUES ($1, $2)";
/// The operations, and the steps of each.
const OPERATIONS: u32 = 40;
const STEPS: u32 = 25;
/// The longest wait for a line of a process.
const LIMIT: Duration = Duration::from_secs(60);

/// Writes a line for each step: an effect outside of the journal.
#[derive(Serialize, Deserialize)]
struct Errand {
    number: u32,
    step: u32,
}

#[fom(operation(Errand))]
enum Running {
    #[phase(start, to(Step, Done))]
    Step,
    #[phase(end)]
    Done,
}

impl RunningTransitions for Errand {
    async fn step(&mut self, cx: &mut Cx<'_>) -> Result<RunningAfterStep, BoxError> {
        let term = cx.term().ok_or("a journal with a lease")?;
        let line = format!("{} {} {term} {}\n", self.number, self.step, cx.step_key());
        // One write, so that lines of two processes do not mix.
        cx.resource::<fs::File>().write_all(line.as_bytes())?;
        if std::env::var_os(LEDGER).is_some() {
            let (number, step) = (i64::from(self.number), i64::from(self.step));
            cx.commit_with(Sql::new(NOTE).bind(number).bind(step))?;
        }
        cx.sleep(Duration::from_millis(2)).await;
        self.step += 1;
        Ok(match self.step {
            STEPS => RunningAfterStep::Done,
            _ => RunningAfterStep::Step,
        })
    }
}

/// The program of a child. Prints a line when something has happened.
async fn program(config: &str, effects: &Path) -> Result<(), BoxError> {
    let journal = journal_with(config, "errands");
    #[cfg(feature = "tls")]
    let journal = match std::env::var_os("FOM_POSTGRES_TLS") {
        Some(_) => journal.tls(),
        None => journal,
    };
    let journal = journal
        .node(std::env::var("FOM_POSTGRES_NODE")?)
        .on_wait(|owner| println!("waits: {owner}"))
        .open()
        .await?;
    let effects = fs::File::options()
        .append(true)
        .create(true)
        .open(effects)?;
    let runtime = Runtime::builder()
        .localities(1)
        .resource(effects)
        .journal_with(journal)
        .build()?;
    println!("owns");
    let mut ends = Vec::new();
    for number in 0..OPERATIONS {
        match runtime
            .submit(Errand { number, step: 0 })
            .once(number)
            .start()
        {
            Ok(errand) => ends.push(errand),
            Err(_) => break,
        }
    }
    let all = async {
        for end in ends {
            if end.await.is_err() {
                return std::future::pending().await;
            }
        }
    };
    // Until the test closes the input.
    let mut input = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
    let is_asked = tokio::select! {
        () = all => {
            println!("done");
            false
        }
        () = runtime.moved() => {
            println!("moved");
            false
        }
        asked = &mut input => asked.is_ok(),
    };
    if !is_asked {
        input.await??;
    }
    drop(runtime);
    println!("released");
    Ok(())
}

/// What the children run.
#[test]
fn child() {
    let Ok(child) = std::env::var(CHILD) else {
        return;
    };
    let (config, effects) = child.split_once('|').unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if let Err(error) = runtime.block_on(program(config, Path::new(effects))) {
        println!("fails: {error}");
    }
}

/// Creates the table for the notes. It takes a note twice.
pub(crate) async fn create_ledger(server: &Server) {
    server
        .sql("CREATE TABLE ledger (number bigint, step bigint)")
        .await;
}

/// Checks that each step is noted once.
pub(crate) async fn check_ledger(server: &Server, operations: u32, steps: u32) {
    let all = server.number("SELECT count(*) FROM ledger").await;
    let distinct = "SELECT count(*) FROM (SELECT DISTINCT number, step FROM ledger) l";
    let distinct = server.number(distinct).await;
    let expected = i64::from(operations * steps);
    assert_eq!((all, distinct), (expected, expected));
}

/// Waits for a future.
pub(crate) fn run<T>(asks: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(asks)
}

/// A process that runs the program. It is killed with its drop.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    pub(crate) fn start(node: &str, config: &str, effects: &Path) -> Self {
        Self::start_with(node, config, effects, &[])
    }

    /// Starts a process that notes its steps in the [ledger](create_ledger).
    fn start_noting(node: &str, config: &str, effects: &Path) -> Self {
        Self::start_with(node, config, effects, &[(LEDGER, "1")])
    }

    /// Starts a process with more variables.
    pub(crate) fn start_with(
        node: &str,
        config: &str,
        effects: &Path,
        variables: &[(&str, &str)],
    ) -> Self {
        Self::spawn((CHILD, "takeover::child"), node, config, effects, variables)
    }

    /// Starts a process that runs another test, which takes this variable.
    #[cfg(feature = "cluster")]
    pub(crate) fn start_child(
        variable: &str,
        test: &str,
        node: &str,
        config: &str,
        effects: &Path,
    ) -> Self {
        Self::spawn((variable, test), node, config, effects, &[])
    }

    fn spawn(
        (variable, test): (&str, &str),
        node: &str,
        config: &str,
        effects: &Path,
        variables: &[(&str, &str)],
    ) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(variable, format!("{config}|{}", effects.display()))
            .env("FOM_POSTGRES_NODE", node)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (tell, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        Self { child, lines }
    }

    /// Waits until the process prints a line that begins so.
    pub(crate) fn says(&self, begin: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(LIMIT);
            let line = line.unwrap_or_else(|_| panic!("the process has not said {begin:?}"));
            if line.starts_with(begin) {
                return line;
            }
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status().unwrap();
        assert!(sent.success());
    }

    /// Lets the program end.
    pub(crate) fn end(mut self) {
        drop(self.child.stdin.take());
        self.says("released");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The file with the effects.
pub(crate) struct Effects(pub(crate) PathBuf);

pub(crate) struct Effect {
    pub(crate) number: u32,
    pub(crate) step: u32,
    pub(crate) term: u64,
    pub(crate) key: String,
}

impl Effects {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fom-errands-{name}-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        Self(path)
    }

    pub(crate) fn read(&self) -> Vec<Effect> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        let effect = |line: &str| {
            let mut words = line.splitn(4, ' ');
            Some(Effect {
                number: words.next()?.parse().ok()?,
                step: words.next()?.parse().ok()?,
                term: words.next()?.parse().ok()?,
                key: words.next()?.to_owned(),
            })
        };
        text.lines().map(|line| effect(line).unwrap()).collect()
    }

    /// Waits until there are this many.
    pub(crate) fn wait(&self, most: usize) {
        let begun = std::time::Instant::now();
        while self.read().len() < most {
            assert!(begun.elapsed() < LIMIT, "the operations stand still");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Checks that each operation has made each step, in order; that a repeated step has the same key; and that no step
    /// of an earlier owner comes after one of a later owner, except for `late` of them.
    fn check(&self, owners: usize, late: usize) {
        let effects = self.read();
        let mut steps: BTreeMap<u32, u32> = BTreeMap::new();
        let mut keys = HashMap::new();
        let (mut highest, mut terms, mut behind) = (0, 0, 0);
        for Effect {
            number,
            step,
            term,
            key,
        } in effects
        {
            let next = steps.entry(number).or_default();
            assert!(step <= *next, "errand {number} has left out step {next}");
            *next = (*next).max(step + 1);
            let first = keys.entry((number, step)).or_insert_with(|| key.clone());
            assert_eq!(*first, key, "a repeated step has the same key");
            terms += usize::from(term > highest);
            behind += usize::from(term < highest);
            highest = highest.max(term);
        }
        assert_eq!(steps.len(), OPERATIONS as usize);
        assert!(steps.values().all(|steps| *steps == STEPS), "{steps:?}");
        assert_eq!(terms, owners);
        assert!(
            behind <= late,
            "{behind} effects of an earlier owner came late"
        );
    }
}

impl Effects {
    /// Checks that one process has made each step exactly once, although it may have claimed the journal again.
    pub(crate) fn check_once(&self) {
        let effects = self.read();
        let mut steps = vec![0; OPERATIONS as usize];
        for effect in effects {
            let next = &mut steps[effect.number as usize];
            assert_eq!(
                effect.step, *next,
                "a step of errand {} was repeated",
                effect.number
            );
            *next += 1;
        }
        assert!(steps.iter().all(|step| *step == STEPS), "{steps:?}");
    }
}

impl Drop for Effects {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// PR-06: four owners are killed one after the other. The next one goes on with all that was committed. What the steps wrote to
/// a table of their own is there once.
#[test]
fn a_standby_takes_over_from_an_owner_that_is_killed() {
    let Some(server) = Server::start(SAFE) else {
        return;
    };
    let effects = Effects::new("killed");
    run(create_ledger(&server));
    let start = |node: &str| Process::start_noting(node, &server.config(), &effects.0);
    let mut owner = start("node 0");
    owner.says("owns");
    for round in 1..=4 {
        let standby = start(&format!("node {round}"));
        let waits = standby.says("waits");
        assert!(
            waits.starts_with(&format!("waits: node {} has", round - 1)),
            "{waits}"
        );
        effects.wait(round * 150);
        owner.signal("-KILL");
        standby.says("owns");
        owner = standby;
    }
    owner.says("done");
    effects.check(5, 0);
    run(check_ledger(&server, OPERATIONS, STEPS));
    owner.end();
}

/// A process that was paused for longer than its lease enters no phase function when it runs again, and ends. The one
/// locality may have been in a function when the pause began.
#[test]
fn an_owner_that_was_paused_starts_nothing() {
    let Some(server) = Server::start(SAFE) else {
        return;
    };
    let effects = Effects::new("paused");
    let start = |node: &str| Process::start(node, &server.config(), &effects.0);
    let paused = start("first");
    paused.says("owns");
    let standby = start("second");
    standby.says("waits");
    effects.wait(100);
    paused.signal("-STOP");
    standby.says("owns");
    paused.signal("-CONT");
    paused.says("moved");
    standby.says("done");
    effects.check(2, 1);
    paused.end();
    standby.end();
}

/// A process that ends gives the journal up, and the standby goes on at once.
#[test]
fn an_owner_that_ends_hands_over() {
    let Some(server) = Server::start(SAFE) else {
        return;
    };
    let effects = Effects::new("ended");
    let start = |node: &str| Process::start(node, &server.config(), &effects.0);
    let owner = start("first");
    owner.says("owns");
    let standby = start("second");
    standby.says("waits");
    effects.wait(100);
    owner.end();
    standby.says("owns");
    standby.says("done");
    effects.check(2, 0);
    standby.end();
}

/// Connections that break, again and again, lose nothing and repeat nothing: a lost answer is found out by a write. No
/// operation fails.
#[test]
fn lost_answers_lose_nothing() {
    let Some(server) = Server::start(SAFE) else {
        return;
    };
    limited(move || async move {
        let effects = Effects::new("lost");
        create_ledger(&server).await;
        let child = Process::start_noting("only", &server.config(), &effects.0);
        child.says("owns");
        let client = server.client().await;
        for round in 1..20 {
            effects.wait(round * 50);
            let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                        WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";
            while client.query_one(kill, &[]).await.unwrap().get::<_, i64>(0) == 0 {}
        }
        child.says("done");
        effects.check_once();
        check_ledger(&server, OPERATIONS, STEPS).await;
        child.end();
    });
}

/// The server is killed without a checkpoint, and started again.
#[test]
fn a_server_that_is_killed_and_started_again() {
    let Some(mut server) = Server::start(SAFE) else {
        return;
    };
    let effects = Effects::new("server");
    run(create_ledger(&server));
    let child = Process::start_noting("only", &server.config(), &effects.0);
    child.says("owns");
    for round in 1..=3 {
        effects.wait(round * 200);
        server.kill();
        server.run();
    }
    child.says("done");
    effects.check_once();
    run(check_ledger(&server, OPERATIONS, STEPS));
    child.end();
}
