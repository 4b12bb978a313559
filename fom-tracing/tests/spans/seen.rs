//! What a subscriber sees of the spans of one test.

use std::{
    collections::HashMap,
    fmt::{Debug, Write as _},
    sync::{Arc, Mutex, Once, OnceLock, PoisonError},
};

use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt as _},
    registry::LookupSpan,
};

/// The lines of all tests.
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The fields of a span or an event.
#[derive(Clone, Default)]
struct Fields(HashMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl Fields {
    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("-", String::as_str)
    }
}

struct Seeing;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Seeing {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, of: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let span = of.span(id).unwrap();
        span.extensions_mut().insert(Arc::new(Mutex::new(fields)));
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, of: Context<'_, S>) {
        let span = of.span(id).unwrap();
        let extensions = span.extensions();
        let fields = extensions.get::<Arc<Mutex<Fields>>>().unwrap();
        record.record(&mut *fields.lock().unwrap());
    }

    fn on_event(&self, event: &Event<'_>, of: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut line = fields.get("message").to_owned();
        // From the innermost span outwards.
        for span in of.event_scope(event).into_iter().flatten() {
            let extensions = span.extensions();
            let Some(fields) = extensions.get::<Arc<Mutex<Fields>>>() else {
                continue;
            };
            let fields = fields.lock().unwrap();
            let text = match span.name() {
                "operation" => format!("{} {}", fields.get("type"), fields.get("key")),
                "phase" => format!("{} {}", fields.get("phase"), fields.get("attempt")),
                "run" => format!("run {} in {}", fields.get("number"), fields.get("locality")),
                name => name.to_owned(),
            };
            write!(line, " < {text}").unwrap();
        }
        put(line);
    }

    fn on_close(&self, id: Id, of: Context<'_, S>) {
        let span = of.span(&id).unwrap();
        let extensions = span.extensions();
        let fields = extensions.get::<Arc<Mutex<Fields>>>().unwrap();
        let fields = fields.lock().unwrap();
        if span.name() == "operation" {
            let (of, key, outcome) = (fields.get("type"), fields.get("key"), fields.get("outcome"));
            put(format!("end {of} {key} {outcome}"));
        }
    }
}

fn put(line: String) {
    let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    lines.push(line);
}

/// Begins to see spans on all threads.
pub(crate) fn see() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let registry = tracing_subscriber::registry().with(Seeing);
        tracing::subscriber::set_global_default(registry).unwrap();
    });
}

/// Returns the lines that have this word, which no other test has.
pub(crate) fn lines(word: &str) -> Vec<String> {
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    let own = lines.iter().filter(|line| line.contains(word));
    own.cloned().collect()
}

/// As [`lines`], once this line is the last one.
pub(crate) fn lines_until(word: &str, last: &str) -> Vec<String> {
    loop {
        let lines = lines(word);
        if lines.last().is_some_and(|line| line == last) {
            return lines;
        }
        std::thread::yield_now();
    }
}

/// The contexts of spans, as text, that were made parents after a restart.
pub(crate) fn extracted() -> &'static Mutex<Vec<String>> {
    static ALL: OnceLock<Mutex<Vec<String>>> = OnceLock::new();
    ALL.get_or_init(Mutex::default)
}
