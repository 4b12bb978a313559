//! What an editor does with a machine. The tests drive rust-analyzer as an editor does.
//!
//! `tests/editor/run` builds rust-analyzer and runs these tests. Without the program they are skipped, and say so.

#[path = "editor/lsp.rs"]
mod lsp;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use lsp::{Editor, Place};
use serde_json::{Value, json};

/// The places of phase `Running`, with a mark in each name: the variant, both `to(..)`, both exits, and two paths.
const RUNNING: [&str; 7] = [
    "    |Running {\n        /// How often.",
    "to(Waiting, |Running)",
    "to(|Running, Done)",
    "RouteAfterIdle::|Running",
    "RouteAfterWaiting::|Running",
    "(phase, Route::|Running",
    "RouteKind::|Running",
];

const FUNCTION: &str = "async fn |running";

/// What is needed to show and to compile the program.
struct Workshop {
    analyzer: PathBuf,
    folder: PathBuf,
    sysroot: PathBuf,
    /// The library, and the macros, as cargo built them.
    runtime: PathBuf,
    macros: PathBuf,
}

impl Workshop {
    /// Returns `None` where rust-analyzer is not there.
    fn open() -> Option<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let built = root.join("target/editor/bin/rust-analyzer");
        let analyzer = std::env::var_os("FOM_RUST_ANALYZER").map_or(built, PathBuf::from);
        if !analyzer.exists() {
            eprintln!(
                "SKIPPED: there is no {}; `tests/editor/run` builds it",
                analyzer.display()
            );
            return None;
        }
        let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]));
        let messages = output(Command::new("cargo").current_dir(root).args([
            "build",
            "--locked",
            "--quiet",
            "-p",
            "fom-runtime",
            "--message-format=json",
        ]));
        let artifact = |name: &str, extension: &str| {
            let messages = messages.lines();
            let mut messages = messages.filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let message = messages.find(|message| message["target"]["name"] == name);
            let message = message.unwrap_or_else(|| panic!("cargo builds {name}"));
            let files = message["filenames"].as_array().expect("files").iter();
            let mut files = files.filter_map(Value::as_str).map(PathBuf::from);
            let file = files.find(|file| file.extension().is_some_and(|it| it == extension));
            file.expect("a library")
        };
        Some(Self {
            analyzer,
            folder: root.join("tests/editor"),
            sysroot: PathBuf::from(sysroot.trim()),
            runtime: artifact("fom_runtime", "rlib"),
            macros: artifact("fom_macros", std::env::consts::DLL_EXTENSION),
        })
    }

    /// Shows the program in an editor.
    fn editor(&self) -> Editor {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let library = |name: &str| root.join(name).join("src/lib.rs");
        let project = json!({
            "sysroot": self.sysroot,
            "crates": [
                {
                    "display_name": "fom_macros",
                    "root_module": library("fom-macros"),
                    "edition": "2024",
                    "deps": [],
                    "is_proc_macro": true,
                    "is_workspace_member": false,
                    "proc_macro_dylib_path": self.macros,
                },
                {
                    "display_name": "fom_runtime",
                    "root_module": library("fom-runtime"),
                    "edition": "2024",
                    "is_workspace_member": false,
                    "deps": [{ "crate": 0, "name": "fom_macros" }],
                },
                {
                    "display_name": "machine",
                    "root_module": self.folder.join("machine.rs"),
                    "edition": "2024",
                    "is_workspace_member": true,
                    "deps": [{ "crate": 1, "name": "fom_runtime" }],
                },
            ],
        });
        let server = self.sysroot.join("libexec/rust-analyzer-proc-macro-srv");
        Editor::open(&self.analyzer, &self.folder, &project, &server)
    }

    /// Compiles the text, and returns each error with its line and the text that it points at.
    fn errors(&self, name: &str, text: &str) -> Vec<(String, String)> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("editor");
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join(format!("{name}.rs"));
        std::fs::write(&file, text).expect("a file");
        let mut rustc = Command::new("rustc");
        rustc
            .args(["--edition=2024", "--crate-type=lib", "--emit=metadata", "--error-format=json"])
            .arg("--out-dir")
            .arg(&folder)
            .arg("--extern")
            .arg(format!("fom_runtime={}", self.runtime.display()))
            .arg("-L")
            .arg(format!("dependency={}", self.deps().display()))
            .arg(&file);
        let output = rustc.output().expect("rustc runs");
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        let messages = messages.lines();
        let messages = messages.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let errors = messages.filter(|message| {
            message["level"] == "error" && !message["spans"].as_array().is_none_or(Vec::is_empty)
        });
        let errors = errors.map(|message| {
            let spans = message["spans"].as_array().expect("spans").iter();
            let primary = spans.clone().find(|span| span["is_primary"] == true);
            let lines = &primary.expect("a place")["text"][0];
            let part = |key: &str| lines[key].as_u64().expect("a column") as usize - 1;
            let line = lines["text"].as_str().expect("a line");
            let marked = line[part("highlight_start")..part("highlight_end")].to_owned();
            (message["message"].as_str().expect("a text").to_owned(), marked)
        });
        errors.collect()
    }

    /// The folder with the libraries that the library needs.
    fn deps(&self) -> PathBuf {
        let folder = self.runtime.parent().expect("a folder");
        if folder.ends_with("deps") {
            folder.to_owned()
        } else {
            folder.join("deps")
        }
    }
}

fn output(command: &mut Command) -> String {
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{command:?} failed");
    String::from_utf8(output.stdout).expect("text")
}

fn places(text: &str, marks: &[&str]) -> Vec<Place> {
    let mut places: Vec<Place> = marks.iter().map(|mark| Place::of(text, mark)).collect();
    places.sort();
    places
}

#[test]
fn explore() {
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let mut editor = workshop.editor();
    println!("compiles: {:?}", workshop.errors("whole", editor.text()));
    let text = editor.text().to_owned();
    let name = |place: &Place| {
        let line = text.lines().nth(place.line as usize).unwrap_or_default();
        format!("{}:{} {}", place.line + 1, place.column, &line[place.column as usize..])
    };
    for mark in RUNNING.into_iter().chain([FUNCTION]) {
        println!("== {mark:?}");
        let found = editor.definition(mark);
        println!("definition {:?}", found.iter().map(name).collect::<Vec<_>>());
        let found = editor.declaration(mark);
        println!("declaration {:?}", found.iter().map(name).collect::<Vec<_>>());
        let found = editor.references(mark);
        println!("references {:#?}", found.iter().map(name).collect::<Vec<_>>());
        println!("hover {:?}", editor.hover(mark));
        match editor.rename(mark, "Renamed") {
            Ok(new) => {
                for (line, (a, b)) in text.lines().zip(new.lines()).enumerate() {
                    if a != b {
                        println!("  {} {b}", line + 1);
                    }
                }
                println!("  {:#?}", workshop.errors("renamed", &new));
            }
            Err(message) => println!("  refused: {message}"),
        }
    }
    let _ = places(&text, &RUNNING);
    for (whole, half) in [
        ("to(Waiting, Running)", "to(Runn|)"),
        ("on(Go)", "on(G|)"),
        ("return Ok(RouteAfterIdle::Waiting);", "return Ok(RouteAfterIdle::W|);"),
        ("return Ok(RouteAfterIdle::Waiting);", "return Ok(RouteAf|);"),
        ("self.times += *times;", "self.|;"),
    ] {
        editor.type_text(&text.replace(whole, &half.replace('|', "")));
        println!("{half} {:?}", editor.completions(half));
    }
    for (whole, half) in [("to(Waiting, Running)", "to(Waiting, Runn)"), ("    /// End.\n", "    Half,\n    /// End.\n"), ("to(Waiting, Running)", "to(Waiting, Running")] {
        editor.type_text(&text.replace(whole, half));
        println!("{half}");
        for mark in ["to(|Running, Done)", "RouteAfterIdle::|Running"] {
            let found = editor.definition(mark);
            println!("definition {mark} {:?}", found.iter().map(name).collect::<Vec<_>>());
            let found = editor.references(mark);
            println!("references {mark} {:?}", found.len());
        }
        editor.type_text(&editor.text().to_owned().replace("self.times += *times;", "self.;"));
        println!("completions {:?}", editor.completions("self.|;"));
        editor.type_text(&text.replace(whole, half).replace("return Ok(RouteAfterIdle::Waiting);", "return Ok(RouteAfterIdle::W);"));
        println!("completions {:?}", editor.completions("return Ok(RouteAfterIdle::W|);"));
    }
}
