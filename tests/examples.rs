//! Runs every example, and checks that the README shows the output of the first one.

/// Includes the file as a module, with a test that runs its `main` (which is `pub(crate)` for that).
macro_rules! examples {
    ($($name:ident $file:literal)*) => {$(
        #[path = $file]
        mod $name;

        #[test]
        fn $name() {
            $name::main().unwrap();
        }
    )*

        const RUN: &[&str] = &[$(stringify!($name)),*];
    };
}

examples! {
    active_object "../examples/active_object.rs"
    adaptive "../examples/adaptive.rs"
    admission "../examples/admission.rs"
    balancing "../examples/balancing/main.rs"
    blocking_io "../examples/blocking_io.rs"
    deadlines "../examples/deadlines.rs"
    events "../examples/events.rs"
    file_operation "../examples/file_operation.rs"
    hello "../examples/hello.rs"
    inspect "../examples/inspect.rs"
    keyed "../examples/keyed.rs"
    layers "../examples/layers.rs"
    listeners "../examples/listeners.rs"
    long_locks "../examples/long_locks.rs"
    lookup_chain "../examples/lookup_chain.rs"
    placement "../examples/placement.rs"
    queue_per_key "../examples/queue_per_key.rs"
    services "../examples/services.rs"
    shutdown "../examples/shutdown.rs"
    snapshot_restore "../examples/snapshot_restore.rs"
    spread "../examples/spread.rs"
    stuck "../examples/stuck.rs"
    survive "../examples/survive.rs"
    tcp_server "../examples/tcp_server.rs"
    waiting "../examples/waiting.rs"
}

/// A new example must run, too, and be in the list.
#[test]
fn every_example_is_run_and_listed() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let list = include_str!("../examples/README.md");
    for entry in std::fs::read_dir(folder).expect("the examples") {
        let path = entry.expect("a readable entry").path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.file_stem().and_then(|name| name.to_str());
            let name = name.expect("a plain name");
            assert!(RUN.contains(&name), "tests/examples.rs does not run {name}");
            assert!(
                list.contains(&format!("[`{name}`]({name}.rs)")),
                "examples/README.md does not list {name}"
            );
        }
    }
    // This example is a folder, and not a crate of its own.
    assert!(list.contains("[`balancing`](balancing)"));
}

/// The program is killed at the worst moment and restarted. Every order is sent, and no customer pays twice.
#[test]
fn survive_goes_on_after_a_kill() {
    if let Some(directory) = std::env::var_os(SURVIVE_IN) {
        // The process to be killed: the example ends it before this function returns.
        let _ = block_on(survive::run(directory.as_ref(), true));
        return;
    }
    let directory = std::env::temp_dir().join(format!("fom-survive-{}", std::process::id()));
    let this = std::env::current_exe().expect("the path of the tests");
    let killed = std::process::Command::new(this)
        .args(["--exact", "survive_goes_on_after_a_kill", "--nocapture"])
        .env(SURVIVE_IN, &directory)
        .output()
        .expect("the tests can be started");
    let said = String::from_utf8_lossy(&killed.stdout);
    assert!(!killed.status.success(), "it was not killed: {said}");
    assert!(said.contains("the power goes"), "{said}");
    block_on(survive::run(&directory, false)).expect("it goes on");
    std::fs::remove_dir_all(&directory).expect("the directory of this test");
}

/// Names the directory of the example to the process that is killed.
const SURVIVE_IN: &str = "FOM_TEST_SURVIVE_IN";

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime of tokio");
    runtime.block_on(future)
}

/// The book's part of the killed example is in that example.
#[test]
fn book_shows_what_survives() {
    let chapter = include_str!("../book/src/durability/promise.md");
    let program = include_str!("../examples/survive.rs");
    let shown = blocks(chapter, "rust,ignore");
    assert_eq!(shown.len(), 1);
    for part in shown[0].split("\n    // ..\n") {
        assert!(
            program.contains(part),
            "examples/survive.rs has not:\n{part}"
        );
    }
}

/// The chapter about the web service quotes the service.
#[test]
fn book_quotes_the_order_service() {
    let source = [
        include_str!("../examples/orders/src/order.rs"),
        include_str!("../examples/orders/src/shop.rs"),
        include_str!("../examples/orders/src/web.rs"),
        include_str!("../examples/orders/src/progress.rs"),
        include_str!("../examples/orders/src/serve.rs"),
        include_str!("../examples/orders/src/second/order.rs"),
    ];
    let shown = blocks(include_str!("../book/src/web-service.md"), "rust,ignore");
    assert!(shown.len() > 10);
    for quote in shown {
        let quote = quote.trim_end();
        assert!(
            source.iter().any(|file| file.contains(quote)),
            "examples/orders has not:\n{quote}"
        );
    }
}

/// The README shows the program that runs.
#[test]
fn readme_shows_the_program() {
    let readme = include_str!("../README.md");
    let program = include_str!("../examples/hello.rs");
    let (_, program) = program.split_once("\n\n").expect("a header");
    let (program, _) = program
        .split_once("    println!(\"{}\", graph().drawing());")
        .expect("the rest is for the drawing");
    let program =
        format!("{program}    Ok(())\n}}").replace("pub(crate) async fn main", "async fn main");
    assert_eq!(blocks(readme, "rust").join("\n\n"), program);
}

/// The figures of the book are those of the simulation.
#[test]
fn book_shows_what_balancing_brings() {
    let machine = fom_runtime::topology::Machine::synthetic(2, 4, 8, 1);
    let table = balancing::table(&balancing::runs(&machine));
    let page = include_str!("../book/src/balancing.md");
    assert_eq!(blocks(page, "text"), [table]);
}

/// The compiler messages in the reference are those that the tests of the messages expect.
#[test]
fn reference_quotes_the_compiler() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |folder: &str, extension: &str| -> String {
        let entries = std::fs::read_dir(root.join(folder)).expect("a folder of the repository");
        let paths = entries.map(|entry| entry.expect("a readable entry").path());
        paths
            .filter(|path| path.extension().is_some_and(|found| found == extension))
            .map(|path| std::fs::read_to_string(path).expect("text"))
            .collect()
    };
    let expected = read("tests/ui/fail", "stderr");
    let quoted = read("book/src/reference", "md");
    let quotes: Vec<_> = quoted
        .lines()
        .filter(|line| line.starts_with("error: ") || line.starts_with("error["))
        .collect();
    assert!(quotes.len() > 50, "only {} quotes found", quotes.len());
    for quote in quotes {
        assert!(
            expected.lines().any(|line| line == quote),
            "the compiler does not say (any more):\n{quote}"
        );
    }
}

/// Every test named by the table of claims, the table of traps and the chapters on failures and on versions exists.
#[test]
fn tests_that_are_named_exist() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = [
        include_str!("../book/src/claims.md"),
        include_str!("../book/src/traps.md"),
    ];
    let mut named = 0;
    let words = pages
        .iter()
        .flat_map(|page| page.split('`').skip(1).step_by(2));
    // The chapters also have code. Its names do not look like names of tests.
    let chapters = [
        include_str!("../book/src/durability/failures.md"),
        include_str!("../book/src/versions.md"),
    ];
    let names = chapters
        .iter()
        .flat_map(|chapter| chapter.split('`').skip(1).step_by(2));
    let named_in_chapters = names.filter(|name| {
        let is_of_test = |char: char| char.is_ascii_lowercase() || "_:".contains(char);
        name.chars().all(is_of_test) && !name.starts_with("testing::")
    });
    for name in words.chain(named_in_chapters) {
        let Some((file, test)) = name.split_once("::") else {
            continue;
        };
        if file == "program" {
            continue; // how names are written
        }
        // `shuttle::keys::..` is in a file of the program's folder.
        let (file, test) = match test.rsplit_once("::") {
            Some((module, test)) => (format!("{file}/{}", module.replace("::", "/")), test),
            None => (file.to_owned(), test),
        };
        let is_there = |folder: &str| {
            let path = root.join(folder).join(format!("{file}.rs"));
            let tests = std::fs::read_to_string(path).unwrap_or_default();
            tests.contains(&format!("fn {test}("))
        };
        assert!(
            [
                "fom-runtime/tests",
                "fom-durable/tests",
                "fom-patterns/tests",
                "fom-watch/tests",
                "fom-inspect/tests",
                "fom-cli/tests",
                "fom-metrics/tests",
                "fom-tracing/tests",
                "fom-recorder/tests",
                "fom-net/tests",
                "fom-postgres/tests",
                "fom-nats/tests",
                "fom-cluster/tests",
                "fom-objects/tests",
                "fom-sim/tests",
                "fom-journal/tests",
                "fom-protocol/tests",
                "fom-runtime/src",
                "tests",
            ]
            .into_iter()
            .any(is_there),
            "the book names `{name}`, which is not there"
        );
        named += 1;
    }
    assert!(named > 30, "only {named} names found");
}

/// Each point of the table of power cuts has a test. Each kill point that the table names is one of the crash harness.
#[test]
fn points_where_the_power_can_go_are_those_of_the_harness() {
    let chapter = include_str!("../book/src/durability/failures.md");
    let points = include_str!("crash/src/points.rs");
    let (_, table) = chapter
        .split_once("| what others saw | shown by |\n")
        .expect("the table");
    let rows: Vec<_> = table
        .lines()
        .take_while(|line| line.starts_with('|'))
        .skip(1)
        .collect();
    assert!(rows.len() >= 18, "only {} points", rows.len());
    for row in rows {
        let (_, shown) = row
            .trim_end_matches(" |")
            .rsplit_once("| ")
            .expect("columns");
        assert!(
            shown.contains('`') || shown.starts_with("the same"),
            "{row}"
        );
        for point in shown.split('*').skip(1).step_by(2) {
            // Before and after each operation of the disk.
            let of_disk = point
                .strip_prefix("before ")
                .or_else(|| point.strip_prefix("after "));
            let is_there = |name: &str| points.contains(&format!("\"{name}\""));
            assert!(
                is_there(point) || of_disk.is_some_and(is_there),
                "the harness has no point `{point}`"
            );
        }
    }
}

/// Returns the code blocks of a language.
fn blocks<'a>(markdown: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    markdown
        .split(&fence)
        .skip(1)
        .map(|rest| rest.split_once("\n```").expect("a block that ends").0)
        .collect()
}

#[path = "../fom-runtime/benches/kit/answer.rs"]
#[allow(unreachable_pub, dead_code, reason = "the benchmarks use all of it")]
mod answer;
#[path = "../fom-runtime/benches/plots/markdown.rs"]
#[allow(unreachable_pub, dead_code, reason = "the benchmarks use all of it")]
mod markdown;

use answer::{Answer, Best, short};

/// The chapter on speed has the instruction counts that `.ci/run` compares.
#[test]
fn the_chapter_on_speed_has_the_recorded_instructions() {
    let chapter = include_str!("../book/src/speed.md");
    let recorded = include_str!("../fom-runtime/benches/instructions.txt");
    let table = markdown::instructions(recorded);
    let records = recorded.lines().filter(|line| !line.starts_with('#'));
    let header = 2;
    assert_eq!(table.lines().count(), header + records.count());
    let wanted = markdown::INSTRUCTIONS.filled(chapter, &table);
    assert_eq!(
        Ok(chapter),
        wanted.as_deref().map_err(|_| ()),
        "left: book/src/speed.md"
    );
}

/// The chapter on speed has the answers that the benchmarks gave last.
#[test]
fn the_chapter_on_speed_has_the_stored_answers() {
    let chapter = include_str!("../book/src/speed.md");
    let stored = include_str!("../fom-runtime/benches/answers.jsonl");
    let answers: Vec<Answer> = stored
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of the benchmarks"))
        .collect();
    let wanted = markdown::ANSWERS.filled(chapter, &markdown::answers(&answers, false));
    assert_eq!(
        Ok(chapter),
        wanted.as_deref().map_err(|_| ()),
        "left: book/src/speed.md"
    );
}
