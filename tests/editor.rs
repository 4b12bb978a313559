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
    "        Route::|Running",
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
            .args([
                "--edition=2024",
                "--crate-type=lib",
                "--emit=metadata",
                "--error-format=json",
            ])
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
            (
                message["message"].as_str().expect("a text").to_owned(),
                marked,
            )
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

/// The text with each `Running` at the marks under another name.
fn renamed(text: &str) -> String {
    RUNNING.iter().fold(text.to_owned(), |text, mark| {
        let old = mark.replace('|', "");
        let new = mark.replace("|Running", "Moved");
        assert_eq!(text.matches(&old).count(), 1, "{mark} is there once");
        text.replace(&old, &new)
    })
}

#[test]
fn a_rename_from_any_place_changes_all_but_the_function() {
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let mut editor = workshop.editor();
    let text = editor.text().to_owned();
    assert_eq!(workshop.errors("whole", &text), []);
    let wanted = renamed(&text);
    for mark in RUNNING {
        assert_eq!(editor.rename(mark, "Moved").as_ref(), Ok(&wanted), "{mark}");
    }
    // rustc says once that the old function is in the way, and once that the new function is missing.
    let errors = workshop.errors("renamed", &wanted);
    let (messages, marked): (Vec<_>, Vec<_>) = errors.into_iter().unzip();
    assert_eq!(
        messages,
        [
            "method `running` is not a member of trait `RouteTransitions`",
            "not all trait items implemented, missing: `moved`",
        ]
    );
    assert!(marked[0].contains("fn running("));
    assert_eq!(marked[1], "impl RouteTransitions for Call");
    let whole = wanted.replace("fn running(", "fn moved(");
    assert_eq!(workshop.errors("whole_renamed", &whole), []);
}

#[test]
fn a_rename_from_the_declaration_takes_the_exits_of_the_phase_along() {
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let mut editor = workshop.editor();
    let text = editor.text().to_owned();
    let wanted = text.replace("Waiting", "Moved");
    for mark in ["    |Waiting,\n", "to(|Waiting, Running)"] {
        assert_eq!(editor.rename(mark, "Moved").as_ref(), Ok(&wanted), "{mark}");
    }
    let whole = wanted.replace("fn waiting(", "fn moved(");
    assert_eq!(workshop.errors("exits_renamed", &whole), []);
}

#[test]
fn a_rename_of_the_function_is_refused() {
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let refusal = workshop.editor().rename(FUNCTION, "renamed");
    let refusal = refusal.expect_err("the name follows the phase");
    assert_eq!(refusal, "No identifier available to rename");
}

/// Returns whether these are the declaration alone. At the declaration itself, the editor also offers the attribute, which
/// has the function of the phase.
fn leads_only_to(found: &[Place], declaration: Place, text: &str, mark: &str) -> bool {
    let attribute = Place::of(text, "#[|fom(");
    found == [declaration] || (mark == RUNNING[0] && found == [attribute, declaration])
}

#[test]
fn every_place_leads_to_the_declaration_and_to_all_places() {
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let mut editor = workshop.editor();
    let text = editor.text().to_owned();
    let declaration = Place::of(&text, RUNNING[0]);
    let all = places(&text, &RUNNING);
    for mark in RUNNING {
        assert!(leads_only_to(
            &editor.definition(mark),
            declaration,
            &text,
            mark
        ));
        assert_eq!(editor.references(mark), all, "{mark}");
        assert!(editor.hover(mark).contains("Run."), "{mark}");
    }
    let event = [Place::of(&text, "    |Go,")];
    assert_eq!(editor.definition("on(|Go)"), event);
    let to_phase = editor.declaration(FUNCTION);
    assert!(to_phase.contains(&declaration), "{to_phase:?}");
    assert!(editor.hover(FUNCTION).contains("Run."));
}

/// What the editor offers in the place of a text.
fn offered(editor: &mut Editor, text: &str, whole: &str, half: &str) -> Vec<String> {
    assert!(text.contains(whole), "`{whole}` is in the text");
    editor.type_text(&text.replacen(whole, &half.replace('|', ""), 1));
    editor.completions(half)
}

#[test]
fn a_name_that_is_half_typed_is_completed() {
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let mut editor = workshop.editor();
    let text = editor.text().to_owned();
    for (whole, half, wanted) in [
        ("to(Waiting, Running)", "to(Runn|)", "Running"),
        ("to(Waiting, Running)", "to(Waiting, Runn|)", "Running"),
        ("to(Waiting, Running)", "to(W|, Running)", "Waiting"),
        ("to(Running, Done)", "to(Running, D|)", "Done"),
        ("on(Go)", "on(G|)", "Go"),
        ("RouteAfterIdle::Waiting", "RouteAfterIdle::W|", "Waiting"),
        ("RouteAfterWaiting::Stay", "RouteAfterWaiting::S|", "Stay"),
        ("self.times += *times;", "self.|;", "times"),
    ] {
        let offered = offered(&mut editor, &text, whole, half);
        assert!(offered.iter().any(|it| it == wanted), "{half}: {offered:?}");
    }
}

#[test]
fn a_mistake_in_one_phase_leaves_the_others_as_they_are() {
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let mut editor = workshop.editor();
    let text = editor.text().to_owned();
    for (whole, half) in [
        ("to(Waiting, Running)", "to(Waiting, Running, Runn)"),
        ("    /// End.\n", "    Half,\n    /// End.\n"),
        ("    #[phase(to(Done))]\n", "    #[phase(to(Done), bl)]\n"),
        ("#[phase(end)]", "#[phase()]"),
        ("operation(Call)", "oparation(Call)"),
    ] {
        assert!(text.contains(whole), "`{whole}` is in the text");
        let broken = text.replacen(whole, half, 1);
        editor.type_text(&broken);
        // In the first text, the mark of the first `to(..)` is another one.
        let marks = RUNNING.map(|mark| match mark {
            "to(Waiting, |Running)" if !broken.contains("to(Waiting, Running)") => {
                "to(Waiting, |Running, Runn)"
            }
            mark => mark,
        });
        let declaration = Place::of(&broken, marks[0]);
        let all = places(&broken, &marks);
        for mark in marks {
            let found = editor.definition(mark);
            assert!(
                leads_only_to(&found, declaration, &broken, mark),
                "{half}: {mark}"
            );
            assert_eq!(editor.references(mark), all, "{half}: {mark}");
        }
        for (whole, half, wanted) in [
            ("RouteAfterIdle::Waiting", "RouteAfterIdle::W|", "Waiting"),
            ("self.times += *times;", "self.|;", "times"),
            ("to(Running, Done)", "to(Running, D|)", "Done"),
        ] {
            let offered = offered(&mut editor, &broken, whole, half);
            assert!(offered.iter().any(|it| it == wanted), "{half}: {offered:?}");
        }
    }
}
