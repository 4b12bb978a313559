//! The single trace events.

use std::{
    fmt, io,
    time::{Duration, SystemTime},
};

use fom_runtime::{observe::FlightRecording, time::Instant};

/// A track: the numbers of a process and of a thread.
pub(super) type Track = (usize, usize);

/// Writes trace events, one on each line.
pub(super) struct Out<W> {
    to: W,
    /// Whether there is an event already.
    more: bool,
}

/// A text in quotes, as JSON.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string(self.0).map_err(|_| fmt::Error)?;
        f.write_str(&text)
    }
}

/// A time in microseconds, the unit of trace events.
struct Micros(Duration);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:03}",
            self.0.as_micros(),
            self.0.subsec_nanos() % 1000
        )
    }
}

fn micros(at: Instant) -> Micros {
    Micros(at - Instant::START)
}

/// A slice of a track.
pub(super) struct Slice<'a> {
    pub(super) track: Track,
    pub(super) name: &'a str,
    pub(super) kind: &'a str,
    pub(super) begin: Instant,
    pub(super) end: Instant,
    /// What a viewer shows of it, by name.
    pub(super) args: &'a [(&'a str, &'a dyn fmt::Display)],
}

impl<W: io::Write> Out<W> {
    pub(super) fn begin(mut to: W) -> io::Result<Self> {
        to.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        Ok(Self { to, more: false })
    }

    fn event(&mut self, event: fmt::Arguments<'_>) -> io::Result<()> {
        self.to.write_all(if self.more { b",\n" } else { b"\n" })?;
        self.more = true;
        self.to.write_fmt(event)
    }

    /// Names a process.
    pub(super) fn process(&mut self, process: usize, name: &str) -> io::Result<()> {
        let quoted = Quoted(name);
        self.event(format_args!(
            r#"{{"ph":"M","name":"process_name","pid":{process},"args":{{"name":{quoted}}}}}"#
        ))?;
        self.event(format_args!(
            r#"{{"ph":"M","name":"process_sort_index","pid":{process},"args":{{"sort_index":{process}}}}}"#
        ))
    }

    /// Names a track.
    pub(super) fn track(&mut self, (process, thread): Track, name: &str) -> io::Result<()> {
        let name = Quoted(name);
        self.event(format_args!(
            r#"{{"ph":"M","name":"thread_name","pid":{process},"tid":{thread},"args":{{"name":{name}}}}}"#
        ))?;
        self.event(format_args!(
            r#"{{"ph":"M","name":"thread_sort_index","pid":{process},"tid":{thread},"args":{{"sort_index":{thread}}}}}"#
        ))
    }

    /// Writes a slice.
    pub(super) fn slice(&mut self, slice: &Slice<'_>) -> io::Result<()> {
        let (process, thread) = slice.track;
        let (name, kind) = (Quoted(slice.name), Quoted(slice.kind));
        let (begin, length) = (micros(slice.begin), Micros(slice.end - slice.begin));
        self.event(format_args!(
            r#"{{"ph":"X","pid":{process},"tid":{thread},"name":{name},"cat":{kind},"ts":{begin},"dur":{length},"args":{{"#
        ))?;
        for (index, (name, value)) in slice.args.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let (name, value) = (Quoted(name), value.to_string());
            write!(self.to, "{comma}{name}:{}", Quoted(&value))?;
        }
        self.to.write_all(b"}}")
    }

    /// Writes a moment of a track.
    pub(super) fn moment(
        &mut self,
        (process, thread): Track,
        name: &str,
        kind: &str,
        at: Instant,
    ) -> io::Result<()> {
        let (name, kind, at) = (Quoted(name), Quoted(kind), micros(at));
        self.event(format_args!(
            r#"{{"ph":"i","s":"t","pid":{process},"tid":{thread},"name":{name},"cat":{kind},"ts":{at}}}"#
        ))
    }

    /// Writes an arrow from slice to slice.
    pub(super) fn arrow(
        &mut self,
        kind: &str,
        number: usize,
        (from, begin): (Track, Instant),
        (to, end): (Track, Instant),
    ) -> io::Result<()> {
        let kind = Quoted(kind);
        for (phase, (process, thread), at) in [
            (r#""ph":"s""#, from, begin),
            (r#""ph":"f","bp":"e""#, to, end),
        ] {
            let at = micros(at);
            self.event(format_args!(
                r#"{{{phase},"id":{number},"pid":{process},"tid":{thread},"name":{kind},"cat":{kind},"ts":{at}}}"#
            ))?;
        }
        Ok(())
    }

    /// Ends the trace with what a viewer shows of the whole.
    pub(super) fn end(mut self, recording: &FlightRecording, why: Option<&str>) -> io::Result<()> {
        let at = recording.at.duration_since(SystemTime::UNIX_EPOCH);
        let at = at.unwrap_or_default().as_secs_f64();
        let (older, overwritten) = (recording.older, recording.overwritten);
        write!(
            self.to,
            "\n],\"otherData\":{{\"at\":{at},\"older\":{older},\"overwritten\":{overwritten}"
        )?;
        if let Some(why) = why {
            write!(self.to, ",\"why\":{}", Quoted(why))?;
        }
        self.to.write_all(b"}}\n")
    }
}
