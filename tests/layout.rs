//! The layout of the code: packages and folders import in one direction.
//!
//! Each package has a list of its folders, lowest first. A file imports from its own folder and from lower ones. The
//! methods of a type are in the folder of the type. There are no exceptions.

#[path = "layout/source.rs"]
mod source;

use std::{collections::BTreeSet, fs, path::Path};

use source::Source;

/// The folders of `fom-runtime`, lowest first. A file beside the folders counts as a folder of its own.
const RUNTIME: &[&str] = &[
    "id",
    "heap",
    "key_encoding",
    "step_key",
    "defaults",
    "exclusive",
    "instant",
    "serial",
    "clock",
    "incident",
    "attempt",
    "savable",
    "graph",
    "adaptive",
    "topology",
    "balance",
    "gate",
    "snapshot",
    "fom",
    "operation",
    "typed",
    "locality",
    "runtime",
    "cx",
    "layer",
    "run",
    "testing",
    "prelude",
    "__private",
    "__durability",
    "lib",
];

/// The folders of `fom-durable`, lowest first.
const DURABLE: &[&str] = &["entry", "durable", "testing", "prelude", "lib"];

/// The folders of `fom-journal`, lowest first.
const JOURNAL: &[&str] = &[
    "entry",
    "error",
    "statement",
    "batch",
    "lease",
    "journal",
    "disk",
    "memory",
    "log",
    "file",
    "conformance",
    "lib",
];

/// The folders of `fom-macros`, lowest first.
const MACROS: &[&str] = &[
    "diag", "paths", "syntax", "model", "lower", "check", "expand", "fallback", "active", "lib",
];

/// The folders of `fom-cli`, lowest first.
const CLI: &[&str] = &[
    "args", "failure", "filter", "words", "seen", "file", "holder", "json", "output", "client",
    "top", "online", "journal", "cluster", "lib", "main",
];

/// The folders of `fom-draw`, lowest first.
const DRAW: &[&str] = &[
    "text", "layout", "curve", "parts", "placed", "effort", "column", "ports", "rows", "draw",
    "prelude", "lib",
];

/// The folders of `fom-inspect`, lowest first.
const INSPECT: &[&str] = &[
    "error",
    "address",
    "token",
    "problem",
    "query",
    "layout",
    "catalog",
    "samples",
    "source",
    "types",
    "suspended",
    "parents",
    "journal",
    "state",
    "resources",
    "live",
    "actions",
    "server",
    "inspector",
    "lib",
];

/// The folders of `fom-metrics`, lowest first.
const METRICS: &[&str] = &[
    "catalog",
    "buckets",
    "value",
    "readings",
    "operations",
    "localities",
    "parts",
    "problems",
    "metrics",
    "collector",
    "lib",
];

/// The folders of `fom-watch`, lowest first.
const WATCH: &[&str] = &[
    "warning", "event", "settings", "sight", "board", "threads", "checks", "watcher", "lib",
];

/// The folders of `fom-recorder`, lowest first.
const RECORDER: &[&str] = &["trace", "abort", "settings", "files", "recorder", "lib"];

/// The folders of `fom-tracing`, lowest first.
const TRACING: &[&str] = &["settings", "trace", "runs", "lib"];

/// The folders of `fom-net`, lowest first.
const NET: &[&str] = &["error", "bind", "foms", "udp", "tcp", "lib"];

/// The folders of `fom-postgres`, lowest first.
const POSTGRES: &[&str] = &[
    "error",
    "clock",
    "owner",
    "tls",
    "connection",
    "sql",
    "settings",
    "tables",
    "row",
    "standby",
    "appends",
    "thread",
    "journal",
    "engine",
    "lib",
];

/// The folders of `fom-nats`, lowest first.
const NATS: &[&str] = &[
    "error",
    "monitor",
    "record",
    "request",
    "page",
    "connection",
    "control",
    "logs",
    "engine",
    "lib",
];

/// The folders of `fom-objects`, lowest first.
const OBJECTS: &[&str] = &["carrier", "cx", "objects", "services", "lib"];

/// The folders of `fom-cluster`, lowest first.
const CLUSTER: &[&str] = &[
    "clock",
    "apart",
    "slot",
    "assignment",
    "engine",
    "cluster_state",
    "memory",
    "guarded",
    "conformance",
    "membership",
    "owners",
    "time",
    "commits",
    "error",
    "copying",
    "backup",
    "quarantine",
    "status",
    "report",
    "listed",
    "numbers",
    "call",
    "poison",
    "network",
    "tcp",
    "answers",
    "registry",
    "room",
    "node",
    "inbox",
    "answering",
    "entries",
    "route",
    "caller",
    "letter_room",
    "letters",
    "import",
    "operate",
    "serve",
    "operator",
    "submission",
    "cluster",
    "lib",
];

/// The folders of `fom-sim`, lowest first.
const SIM: &[&str] = &[
    "choices",
    "timeline",
    "baton",
    "chaos",
    "node",
    "disk",
    "sim",
    "interpose",
    "run",
    "report",
    "explore",
    "lib",
];

/// The packages of the workspace that a user adds, and the packages of the workspace that each may use.
const PACKAGES: &[(&str, &[&str])] = &[
    ("fom-macros", &[]),
    ("fom-journal", &[]),
    ("fom-protocol", &[]),
    ("fom-runtime", &["fom-macros", "fom-protocol"]),
    (
        "fom-durable",
        &["fom-journal", "fom-protocol", "fom-runtime"],
    ),
    (
        "fom-patterns",
        &["fom-macros", "fom-protocol", "fom-runtime"],
    ),
    (
        "fom-inspect",
        &["fom-draw", "fom-durable", "fom-recorder", "fom-runtime"],
    ),
    ("fom-draw", &["fom-runtime"]),
    ("fom-cli", &["fom-cluster", "fom-durable", "fom-runtime"]),
    ("fom-watch", &["fom-protocol", "fom-runtime"]),
    ("fom-metrics", &["fom-runtime"]),
    ("fom-tracing", &["fom-runtime"]),
    ("fom-recorder", &["fom-runtime"]),
    ("fom-net", &["fom-protocol", "fom-runtime"]),
    (
        "fom-postgres",
        &["fom-cluster", "fom-journal", "fom-protocol"],
    ),
    ("fom-nats", &["fom-cluster"]),
    (
        "fom-objects",
        &["fom-cluster", "fom-patterns", "fom-runtime"],
    ),
    (
        "fom-cluster",
        &["fom-durable", "fom-journal", "fom-protocol", "fom-runtime"],
    ),
    ("fom-sim", &["fom-journal", "fom-protocol", "fom-runtime"]),
];

/// The most named fields of a struct.
const FIELDS: usize = 12;

/// The most methods of a type in all files of its package, without those of traits.
const METHODS: usize = 40;

/// The larger types, with their fields or methods. A number here only becomes smaller, but for a new key of an attribute.
const LARGER: &[(&str, &str, usize)] = &[
    // A field for each key of the attributes.
    ("fom-macros", "Machine", 29),
    ("fom-macros", "Phase", 29),
    ("fom-macros", "Args", 24),
    ("fom-macros", "PhaseArgs", 27),
    ("fom-durable", "Committer", 15),
    // A row of a listing, with a field for each column.
    ("fom-durable", "SavedFom", 14),
    ("fom-durable", "Meta", 13),
    ("fom-durable", "Durable", 56),
    ("fom-patterns", "List", 13),
    // Two rows of listings.
    ("fom-patterns", "AdmissionStatus", 15),
    ("fom-patterns", "ServiceStatus", 14),
    ("fom-patterns", "Keys", 14),
    // A row of a listing.
    ("fom-watch", "Warning", 16),
];

#[test]
fn a_type_has_few_fields_and_methods() {
    let mut found = Vec::new();
    for (package, _) in PACKAGES {
        let source = Source::read(&root().join(package).join("src"));
        let fields = source.fields().into_iter();
        let methods = source.methods().into_iter();
        let fields = fields.filter(|(_, count)| *count > FIELDS);
        let methods = methods.filter(|(_, count)| *count > METHODS);
        for ((_, name), count) in fields.chain(methods) {
            found.push((*package, name, count));
        }
    }
    let found: Vec<_> = found
        .iter()
        .map(|(package, name, count)| (*package, name.as_str(), *count))
        .collect();
    assert_eq!(found, LARGER, "left: the larger types; right: the list");
}

#[test]
fn packages_depend_on_lower_ones_only() {
    for (package, may) in PACKAGES {
        let manifest = fs::read_to_string(root().join(package).join("Cargo.toml")).unwrap();
        let dependencies = manifest
            .split("\n[")
            .filter(|table| table.starts_with("dependencies]"))
            .flat_map(str::lines)
            .filter_map(|line| line.split([' ', '=', '.']).next())
            .filter(|name| name.starts_with("fom-"));
        for name in dependencies {
            assert!(may.contains(&name), "{package} must not depend on {name}");
        }
    }
}

#[test]
fn folders_of_the_runtime_import_lower_ones_only() {
    check("fom-runtime", RUNTIME);
}

#[test]
fn folders_of_durability_import_lower_ones_only() {
    check("fom-durable", DURABLE);
}

#[test]
fn folders_of_the_journal_import_lower_ones_only() {
    check("fom-journal", JOURNAL);
}

#[test]
fn folders_of_the_macros_import_lower_ones_only() {
    check("fom-macros", MACROS);
}

#[test]
fn folders_of_the_drawings_import_lower_ones_only() {
    check("fom-draw", DRAW);
}

#[test]
fn folders_of_the_inspector_import_lower_ones_only() {
    check("fom-inspect", INSPECT);
}

#[test]
fn folders_of_the_metrics_import_lower_ones_only() {
    check("fom-metrics", METRICS);
}

#[test]
fn folders_of_the_journal_in_postgres_import_lower_ones_only() {
    check("fom-postgres", POSTGRES);
}

#[test]
fn folders_of_the_engine_in_nats_import_lower_ones_only() {
    check("fom-nats", NATS);
}

#[test]
fn folders_of_the_objects_import_lower_ones_only() {
    check("fom-objects", OBJECTS);
}

#[test]
fn folders_of_the_cluster_import_lower_ones_only() {
    check("fom-cluster", CLUSTER);
}

#[test]
fn folders_of_the_spans_import_lower_ones_only() {
    check("fom-tracing", TRACING);
}

#[test]
fn folders_of_the_watcher_import_lower_ones_only() {
    check("fom-watch", WATCH);
}

#[test]
fn folders_of_the_recorder_import_lower_ones_only() {
    check("fom-recorder", RECORDER);
}

#[test]
fn folders_of_the_sockets_import_lower_ones_only() {
    check("fom-net", NET);
}

#[test]
fn folders_of_the_simulation_import_lower_ones_only() {
    check("fom-sim", SIM);
}

#[test]
fn folders_of_the_command_import_lower_ones_only() {
    check("fom-cli", CLI);
}

#[test]
fn parts_of_the_protocol_know_only_the_primitives_and_the_link() {
    let source = Source::read(&root().join("fom-protocol/src"));
    for import in source.imports() {
        let import = (import.from.as_str(), import.to.as_str());
        let allowed = matches!(
            import,
            ("lib.rs", _)
                | (_, "sync.rs")
                | (
                    "sync.rs",
                    "sync/real.rs" | "sync/mutex.rs" | "sync/scheduled.rs" | "sync/shuttle.rs"
                )
                | ("sync/real.rs", "sync/mutex.rs" | "sync/scheduled.rs")
                | (
                    "sync.rs" | "sync/real.rs" | "sync/scheduled.rs",
                    "schedule.rs"
                )
                | ("free_list.rs", "inbox.rs")
                | ("reply.rs", "blocks.rs")
        );
        assert!(allowed, "{} imports {}", import.0, import.1);
    }
}

#[test]
fn patterns_do_not_know_each_other() {
    let source = Source::read(&root().join("fom-patterns/src"));
    for import in source.imports() {
        let (from, to) = (folder_of(&import.from), folder_of(&import.to));
        let allowed = from == to || matches!(from, "lib" | "prelude");
        assert!(allowed, "{} imports {}", import.from, import.to);
    }
}

/// A package on top of the runtime uses what the docs show.
#[test]
fn packages_on_top_use_no_hidden_item() {
    for package in [
        "fom-patterns",
        "fom-draw",
        "fom-metrics",
        "fom-tracing",
        "fom-recorder",
        "fom-net",
        "fom-postgres",
        "fom-nats",
        "fom-cluster",
        "fom-objects",
        "fom-sim",
        "fom-watch",
        "fom-cli",
    ] {
        for (file, text) in texts(&root().join(package).join("src")) {
            assert!(!text.contains("__"), "{package}/{file} uses a hidden item");
        }
    }
}

/// Durability has a hidden seam of its own, and uses no other.
#[test]
fn durability_uses_one_hidden_module() {
    for (file, text) in texts(&root().join("fom-durable/src")) {
        let text = text.replace("__durability", "");
        assert!(!text.contains("__"), "{file} uses another hidden item");
    }
}

/// Returns the files below a folder, with their texts.
fn texts(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(texts(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push((
                path.display().to_string(),
                fs::read_to_string(&path).unwrap(),
            ));
        }
    }
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn check(package: &str, folders: &[&str]) {
    let source = Source::read(&root().join(package).join("src"));
    let level = |file: &str| {
        let folder = folder_of(file);
        let at = folders.iter().position(|known| *known == folder);
        at.unwrap_or_else(|| {
            panic!("{package}: the folder of {file} is not in the list of folders")
        })
    };
    let mut found = BTreeSet::new();
    for import in source.imports() {
        if level(&import.from) < level(&import.to) {
            found.insert(format!("{} imports {}", import.from, import.to));
        }
    }
    for addition in source.additions() {
        if folder_of(&addition.from) != folder_of(&addition.to) {
            found.insert(format!(
                "{} adds methods to {} of {}",
                addition.from, addition.name, addition.to
            ));
        }
    }
    let found: Vec<_> = found.into_iter().collect();
    assert!(
        found.is_empty(),
        "{package}: these lines point up:\n{}\n",
        found.join("\n")
    );
}

/// Returns the folder directly below `src` that a file is in, or the file's own name.
fn folder_of(file: &str) -> &str {
    let first = file.split('/').next().unwrap_or(file);
    first.strip_suffix(".rs").unwrap_or(first)
}

/// Imports are found through re-exports, under new names, as relative paths, in a path of the code, and from an inner
/// module.
#[test]
fn what_points_up_is_found() {
    let src = std::env::temp_dir().join(format!("fom-layout-{}", std::process::id()));
    let files = [
        ("lib.rs", "mod low; mod high; pub use high::{Tall, deep::Deep as Renamed};"),
        ("high/mod.rs", "pub mod deep; pub struct Tall; pub fn wide() {}"),
        ("high/deep.rs", "pub struct Deep; impl super::Tall { fn f() {} }"),
        (
            "low.rs",
            "use crate::{Renamed as Other, Tall}; mod inner { fn f() { super::super::high::wide() } }
            impl Tall { fn g(_: Other) { other_package::high() } }
            #[cfg(test)] mod tests { use crate::high::deep; }",
        ),
    ];
    fs::create_dir_all(src.join("high")).unwrap();
    for (name, text) in files {
        fs::write(src.join(name), text).unwrap();
    }
    let source = Source::read(&src);
    fs::remove_dir_all(&src).unwrap();
    let shown = |edges: BTreeSet<source::Edge>| -> Vec<String> {
        edges
            .into_iter()
            .map(|edge| format!("{} {} {}", edge.from, edge.to, edge.name))
            .collect()
    };
    assert_eq!(
        shown(source.imports()),
        [
            "high/deep.rs high/mod.rs Tall",
            "lib.rs high/deep.rs Deep",
            "lib.rs high/mod.rs Tall",
            "low.rs high/deep.rs Renamed",
            "low.rs high/mod.rs Tall",
            "low.rs high/mod.rs wide",
        ]
    );
    assert_eq!(
        shown(source.additions()),
        ["high/deep.rs high/mod.rs Tall", "low.rs high/mod.rs Tall"]
    );
}
