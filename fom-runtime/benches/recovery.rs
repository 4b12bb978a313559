//! A process is killed and restarted: how long until 1,000,000 parked operations are there again, and how much memory
//! does each take?
//!
//! Another process of this program writes them to the disk, each in two transitions, and is killed by SIGKILL. (The
//! limit writes each in one: a log without old records.) Then the kernel drops its cache of the files. The time runs
//! from opening the files until the last record is in its place. For the stores that place is a hash map that knows the
//! count in advance; for fom it is when `build` returns. `settled_s` is the time until nothing is left to do.

#[path = "recovery/fom.rs"]
mod fom;
#[allow(dead_code, reason = "nothing changes here")]
mod stored;

use std::{
    any::Any,
    collections::HashMap,
    env,
    hint::black_box,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    thread,
};

use kit::{
    Better, Case, Figures, One, Question, Row, Spent, Target, ask, folder, forget_files,
    read_bytes, remove, resident_bytes, settle, size_of_files,
};
use stored::{Change, STATE, Store};

/// No target.
const NONE: Target = Target {
    text: "",
    of_tokio: None,
    of_limit: None,
    absolute: None,
};

const QUESTION: Question = Question {
    name: "recovery",
    cases: &[Case {
        name: "1M",
        rounds: 3,
        peers: &["limit", "fjall", "redb", "fom:journal", "fom"],
    }],
    rows: &[
        Row {
            question: "1,000,000 parked, killed, and there again",
            unit: "s",
            value: |round, peer| round.get("1M", peer, "ready_s"),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: NONE,
        },
        Row {
            question: "  the journal alone, without foms",
            unit: "s",
            value: |round, peer| round.get("1M", peer, "ready_s"),
            better: Better::Less,
            fom: "fom:journal",
            limit: "limit",
            target: NONE,
        },
        Row {
            question: "  memory",
            unit: "bytes each",
            value: |round, peer| round.get("1M", peer, "memory_bytes_each"),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: NONE,
        },
        Row {
            question: "  on the disk",
            unit: "bytes each",
            value: |round, peer| round.get("1M", peer, "disk_bytes_each"),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: NONE,
        },
    ],
    run,
};

/// The number of records in one group.
const GROUP: u64 = 1024;

fn main() -> ExitCode {
    ask(&QUESTION)
}

/// The variable with the folder for the process that is killed.
const FOLDER: &str = "FOM_BENCH_RECOVERY";

fn run(one: &One) -> Figures {
    let all = one.size(1_000_000, 20_000) as u64;
    if one.case == "load" {
        load(one, all);
    }
    let folder = folder(&format!("recovery {}", one.peer));
    let loading = Spent::on(|| {
        let mut loader = loader(one, &folder);
        loader.kill().expect("it can be killed");
        loader.wait().expect("it ends");
        all
    });
    forget_files(&folder);
    let disk = size_of_files(&folder);
    let (read, memory) = (read_bytes(), resident_bytes());
    let mut kept = None;
    let reading = Spent::on(|| {
        let (found, of) = recover(one, &folder, all);
        kept = Some(of);
        found
    });
    assert_eq!(reading.done, all, "all of them are there");
    // The foms are there, and check once whether their event has come.
    let settling = Spent::on(|| {
        settle();
        all
    });
    let (read, memory) = (read_bytes() - read, resident_bytes() - memory);
    black_box(kept);
    remove(&folder);
    let each = |bytes: u64| bytes as f64 / all as f64;
    Figures::new()
        .with("ready_s", reading.wall.as_secs_f64())
        .with("settled_s", (reading.wall + settling.wall).as_secs_f64())
        .with("cpu_s", reading.cpu.as_secs_f64())
        .with("load_s", loading.wall.as_secs_f64())
        .with("memory_bytes_each", each(memory))
        .with("disk_bytes_each", each(disk))
        .with("read_bytes_each", each(read))
}

/// Starts a process that has written all to the disk.
fn loader(one: &One, folder: &Path) -> Child {
    let mut command = Command::new(env::current_exe().expect("a program has a path"));
    command
        .args(["--one", "load", &one.peer])
        .env(FOLDER, folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    if one.quick {
        command.arg("--quick");
    }
    let mut child = command.spawn().expect("this program runs");
    let said = child.stdout.take().expect("a pipe");
    let line = BufReader::new(said).lines().next();
    assert!(
        line.is_some_and(|line| line.is_ok()),
        "it says when all is there"
    );
    child
}

/// Writes all to the disk, reports it, and waits for its end.
fn load(one: &One, all: u64) -> ! {
    let folder = PathBuf::from(env::var_os(FOLDER).expect("the folder"));
    if one.peer == "fom" {
        fom::load(&folder, all);
        loaded();
    }
    let mut store = open(one, &folder, all * 200);
    for version in 0..if one.peer == "limit" { 1 } else { 2 } {
        let mut first = 1;
        while first <= all {
            let last = all.min(first + GROUP - 1);
            let state = [version; STATE];
            store.commit(&mut (first..=last).map(|id| Change {
                id,
                state: &state,
                ended: None,
            }));
            first = last + 1;
        }
    }
    loaded();
}

/// Waits for the kill.
fn loaded() -> ! {
    println!("loaded");
    loop {
        thread::park();
    }
}

fn open(one: &One, folder: &Path, room: u64) -> Box<dyn Store> {
    stored::open(&one.peer, folder, room).unwrap_or_else(|| one.unknown())
}

/// Returns how many operations there are, and the value that keeps them.
fn recover(one: &One, folder: &Path, all: u64) -> (u64, Box<dyn Any>) {
    if one.peer == "fom" {
        let (found, runtime) = fom::recover(folder);
        return (found, Box::new(runtime));
    }
    let mut store = open(one, folder, 0);
    let mut records: HashMap<u64, Box<[u8]>> = HashMap::with_capacity(all as usize);
    store.read(&mut |id, state| match state {
        Some(state) => drop(records.insert(id, state.into())),
        None => drop(records.remove(&id)),
    });
    (records.len() as u64, Box::new((store, records)))
}
