//! Draws the measurements of `cargo bench`: the plots of the book, and the table of its chapter on speed.
//!
//! Run `target/bench/release/plots` from the root of the repository, after `cargo bench`. It reads `results.jsonl` and
//! `answers.jsonl` in `target/bench` (or in the folder given as argument) and `instructions.txt` beside itself. It
//! writes `book/src/plots/*.svg`, puts two tables between their marks in `book/src/speed.md`, and copies the answers to
//! `answers.jsonl` beside itself. Results of small
//! sizes (`--quick`) are drawn as well, and marked as such.

#[path = "plots/axis.rs"]
mod axis;
#[path = "plots/chart.rs"]
mod chart;
#[path = "plots/markdown.rs"]
mod markdown;

use std::{
    collections::BTreeMap,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use axis::Scale;
use chart::{Chart, Point, Series};
use kit::{Answer, Best, Record, short};

/// A plot: its question, the varied property, and the property on its axis.
struct Plot {
    question: &'static str,
    /// The name of the file.
    file: &'static str,
    /// The name of the cases in `growth`.
    varied: &'static str,
    /// The peers to draw, in this order, with their names in the plot.
    peers: &'static [(&'static str, &'static str)],
    title: &'static str,
    x: (&'static str, Scale),
    figure: &'static str,
    y: (&'static str, Scale),
}

const GROWTH: &str = "growth";

const PEERS: &[(&str, &str)] = &[
    ("fom", "fom"),
    ("tokio-mt", "tokio"),
    ("tokio-mt:in-place", "tokio, block_in_place"),
];

const RATE: &str = "ops_per_s";

const PLOTS: &[Plot] = &[
    Plot {
        question: GROWTH,
        peers: PEERS,
        file: "in_flight",
        varied: "in_flight",
        title: "Throughput by operations in flight",
        x: ("operations in flight", Scale::Log),
        figure: RATE,
        y: ("operations a second", Scale::Linear),
    },
    Plot {
        question: GROWTH,
        peers: PEERS,
        file: "in_flight_bytes",
        varied: "in_flight",
        title: "Memory by operations in flight",
        x: ("operations in flight", Scale::Log),
        figure: "bytes_per_op",
        y: ("bytes an operation", Scale::Linear),
    },
    Plot {
        question: GROWTH,
        peers: PEERS,
        file: "localities",
        varied: "localities",
        title: "Throughput by localities",
        x: ("localities, or worker threads", Scale::Linear),
        figure: RATE,
        y: ("operations a second", Scale::Linear),
    },
    Plot {
        question: GROWTH,
        peers: PEERS,
        file: "phases",
        varied: "phases",
        title: "Time a phase by phases of an operation",
        x: ("phases of an operation", Scale::Log),
        figure: "ns_per_phase",
        y: ("nanoseconds a phase", Scale::Linear),
    },
    Plot {
        question: GROWTH,
        peers: PEERS,
        file: "state_bytes",
        varied: "state_bytes",
        title: "Throughput by size of state",
        x: ("bytes of state", Scale::Log),
        figure: RATE,
        y: ("operations a second", Scale::Linear),
    },
    Plot {
        question: GROWTH,
        peers: PEERS,
        file: "blocking_percent",
        varied: "blocking_percent",
        title: "Throughput by share of operations that block for 1 ms",
        x: ("operations that block, %", Scale::Linear),
        figure: RATE,
        y: ("operations a second", Scale::Log),
    },
    Plot {
        question: "durable",
        peers: &[
            ("limit", "limit"),
            ("fom", "fom"),
            ("fom:journal", "its journal alone"),
            ("fjall", "fjall alone"),
        ],
        file: "durable",
        varied: "durable",
        title: "Durable transitions by operations in flight",
        x: ("operations in flight", Scale::Log),
        figure: "per_s",
        y: ("transitions a second", Scale::Log),
    },
];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("plots: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let from = std::env::args_os().nth(1);
    let from = PathBuf::from(from.unwrap_or_else(|| "target/bench".into()));
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/src");
    let records: Vec<Record> = lines(&from.join("results.jsonl"))?;
    let answers: Vec<Answer> = lines(&from.join("answers.jsonl"))?;
    fs::create_dir_all(book.join("plots"))?;
    for plot in PLOTS {
        let file = book.join("plots").join(plot.file).with_extension("svg");
        match draw(plot, &records) {
            Some(svg) => fs::write(&file, svg)?,
            None => eprintln!("{}: nothing was measured", plot.file),
        }
    }
    let quick = records.iter().any(|record| record.quick);
    let chapter = book.join("speed.md");
    let counted = Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.txt");
    let counted = markdown::instructions(&fs::read_to_string(counted)?);
    let text = fs::read_to_string(&chapter)?;
    // The test that compares the chapter with the answers reads this file.
    fs::copy(
        from.join("answers.jsonl"),
        Path::new(env!("CARGO_MANIFEST_DIR")).join("answers.jsonl"),
    )?;
    let text = markdown::ANSWERS.filled(&text, &markdown::answers(&answers, quick))?;
    let text = markdown::INSTRUCTIONS.filled(&text, &counted)?;
    fs::write(&chapter, text)?;
    Ok(())
}

/// Reads one value from each line.
fn lines<T: serde::de::DeserializeOwned>(file: &Path) -> Result<Vec<T>, Box<dyn Error>> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    Ok(lines.map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// Returns the plot, if any of it was measured.
fn draw(plot: &Plot, records: &[Record]) -> Option<String> {
    let mut series = Vec::new();
    let mut quick = false;
    for (peer, name) in plot.peers {
        // By x, which is a whole number.
        let mut values: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for record in records {
            let varied = record.case.split(' ').next();
            let of_another = plot.question == GROWTH && varied != Some(plot.varied);
            if record.question != plot.question || of_another || record.peer != *peer {
                continue;
            }
            let figure = |name| {
                record
                    .figures
                    .0
                    .get(name)
                    .copied()
                    .filter(|v: &f64| v.is_finite())
            };
            if let (Some(x), Some(y)) = (figure("x"), figure(plot.figure)) {
                values.entry(x as u64).or_default().push(y);
                quick |= record.quick;
            }
        }
        let points: Vec<Point> = values
            .into_iter()
            .map(|(x, of)| point(x as f64, of))
            .collect();
        if !points.is_empty() {
            series.push(Series { name, points });
        }
    }
    let mark = if quick {
        " (small sizes, worth nothing)"
    } else {
        ""
    };
    let chart = Chart {
        title: format!("{}{mark}", plot.title),
        x: plot.x,
        y: plot.y,
        series,
    };
    (!chart.series.is_empty()).then(|| chart.svg())
}

/// Returns the median of the rounds, and the least and the greatest.
fn point(x: f64, mut values: Vec<f64>) -> Point {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values[0], values[values.len() - 1]);
    let half = values.len() / 2;
    let middle = if values.len() % 2 == 1 {
        values[half]
    } else {
        (values[half - 1] + values[half]) / 2.0
    };
    Point {
        x,
        low,
        y: middle,
        high,
    }
}
