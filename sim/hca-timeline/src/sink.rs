//! The file: a JSON array of events, one on each line, written as they happen.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Summary;
use crate::track::Track;

/// Events are handed to the system in pieces of this size.
const PIECE_BYTES: usize = 1 << 16;

/// Where events of all cards go.
pub(crate) struct Sink {
    cycle_ps: u64,
    window: Range<u64>,
    inner: Mutex<Inner>,
}

struct Inner {
    file: File,
    /// Whole events that are not in the file yet.
    pending: String,
    summary: Summary,
    error: Option<io::Error>,
    finished: bool,
}

/// Microseconds, the unit of the format.
struct Us(u64);

impl fmt::Display for Us {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (us, ps) = (self.0 / 1_000_000, self.0 % 1_000_000);
        if ps.is_multiple_of(1000) {
            write!(f, "{us}.{:03}", ps / 1000)
        } else {
            write!(f, "{us}.{ps:06}")
        }
    }
}

impl Sink {
    pub fn create(path: &Path, cycle_ps: u64, window: Range<u64>) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut file = File::create(path)?;
        // The file is an array from its first moment on.
        file.write_all(b"[\n")?;
        let inner = Inner {
            file,
            pending: String::with_capacity(PIECE_BYTES + 1024),
            summary: Summary::default(),
            error: None,
            finished: false,
        };
        Ok(Self {
            cycle_ps,
            window,
            inner: Mutex::new(inner),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn us(&self, cycle: u64) -> Us {
        Us(cycle * self.cycle_ps)
    }

    fn has(&self, first: u64, end: u64) -> bool {
        end >= self.window.start && first < self.window.end
    }

    /// Says something about a process or a track. `what` is the name of the event, `args` a JSON object.
    pub fn describe(&self, track: Track, what: &str, args: &serde_json::Value) {
        let (pid, tid) = (track.pid, track.tid);
        self.lock().add(format_args!(
            r#"{{"ph":"M","pid":{pid},"tid":{tid},"name":"{what}","args":{args}}}"#
        ));
    }

    /// Something that lasted from the beginning of cycle `first` to the beginning of cycle `end`. Arguments are the
    /// inside of a JSON object; names here and below need no escapes.
    pub fn slice(&self, track: Track, name: &dyn fmt::Display, first: u64, end: u64, args: fmt::Arguments) {
        if !self.has(first, end) {
            return;
        }
        let (pid, tid, ts) = (track.pid, track.tid, self.us(first));
        let dur = self.us(end.saturating_sub(first));
        self.lock().add(format_args!(
            r#"{{"ph":"X","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur},"name":"{name}","args":{{{args}}}}}"#
        ));
    }

    /// A work request; the rest is said with [`Sink::slice`].
    pub fn count_work_request(&self) {
        self.lock().summary.work_requests += 1;
    }

    /// Something at a moment.
    pub fn instant(&self, track: Track, name: &dyn fmt::Display, at: u64, args: fmt::Arguments) {
        if !self.has(at, at) {
            return;
        }
        let (pid, tid, ts) = (track.pid, track.tid, self.us(at));
        self.lock().add(format_args!(
            r#"{{"ph":"i","s":"t","pid":{pid},"tid":{tid},"ts":{ts},"name":"{name}","args":{{{args}}}}}"#
        ));
    }

    /// Something of which several happen at a time: those with the same name are a group of tracks.
    pub fn overlapping(
        &self,
        track: Track,
        id: u64,
        name: &str,
        (first, end): (u64, u64),
        args: fmt::Arguments,
    ) {
        if !self.has(first, end) {
            return;
        }
        let pid = track.pid;
        let (begin, finish) = (self.us(first), self.us(end));
        let same = format_args!(r#""cat":"pcie","id2":{{"local":"{id:#x}"}},"pid":{pid},"name":"{name}""#);
        let mut inner = self.lock();
        inner.add(format_args!(
            r#"{{"ph":"b",{same},"ts":{begin},"args":{{{args}}}}}"#
        ));
        inner.add(format_args!(r#"{{"ph":"e",{same},"ts":{finish}}}"#));
    }

    /// How much there is of something from a cycle on; `series` is the inside of a JSON object.
    pub fn counter(&self, track: Track, name: &dyn fmt::Display, at: u64, series: fmt::Arguments) {
        if !self.has(at, at) {
            return;
        }
        let (pid, ts) = (track.pid, self.us(at));
        self.lock().add(format_args!(
            r#"{{"ph":"C","pid":{pid},"tid":0,"ts":{ts},"name":"{name}","args":{{{series}}}}}"#
        ));
    }

    /// Writes the rest and the closing bracket, once.
    pub fn finish(&self) -> io::Result<Summary> {
        let mut inner = self.lock();
        if !inner.finished {
            inner.finished = true;
            inner.pending.push_str("\n]\n");
            inner.flush();
        }
        match inner.error.take() {
            Some(error) => Err(error),
            None => Ok(inner.summary),
        }
    }
}

/// The inside of a JSON object: values of the lanes, by what a lane is called and its number.
pub(crate) fn lanes<T: fmt::Display>(lane: &str, values: impl Iterator<Item = (u8, T)>) -> String {
    let entries = values.map(|(number, value)| format!(r#""{lane} {number}":{value}"#));
    entries.collect::<Vec<_>>().join(",")
}

impl Inner {
    fn add(&mut self, event: fmt::Arguments) {
        if self.finished || self.error.is_some() {
            return;
        }
        if self.summary.events > 0 {
            self.pending.push_str(",\n");
        }
        self.summary.events += 1;
        // Writing to a String cannot fail.
        let _ = self.pending.write_fmt(event);
        if self.pending.len() >= PIECE_BYTES {
            self.flush();
        }
    }

    /// The first error stays; what is written after it would have a hole before it.
    fn flush(&mut self) {
        if self.error.is_none()
            && let Err(error) = self.file.write_all(self.pending.as_bytes())
        {
            self.error = Some(error);
        }
        self.pending.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACK: Track = Track { pid: 1, tid: 2 };

    fn read(path: &Path) -> Vec<serde_json::Value> {
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    #[test]
    fn events_are_json_in_microseconds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/t.json");
        let sink = Sink::create(&path, 4000, 0..u64::MAX).unwrap();
        sink.describe(TRACK, "thread_name", &serde_json::json!({"name": "a \"b\""}));
        sink.slice(TRACK, &"x", 250, 300, format_args!(r#""bytes":5"#));
        sink.instant(TRACK, &"i", 1, format_args!(""));
        sink.overlapping(TRACK, 7, "read", (1, 3), format_args!(""));
        sink.counter(TRACK, &"c", 2, format_args!(r#""n":1"#));
        assert_eq!(sink.finish().unwrap().events, 6);
        assert_eq!(sink.finish().unwrap().events, 6);
        let events = read(&path);
        assert_eq!((&events[1]["ts"], &events[1]["dur"]), (&1.0.into(), &0.2.into()));
        assert_eq!(events[1]["args"]["bytes"], 5);
        assert_eq!(events[4]["ts"], 0.012);
        assert_eq!(Us(1_000_001).to_string(), "1.000001");
    }

    #[test]
    fn a_killed_run_leaves_whole_events() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.json");
        let sink = Sink::create(&path, 4000, 0..u64::MAX).unwrap();
        for at in 0..5000 {
            sink.instant(TRACK, &"i", at, format_args!(""));
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.len() > PIECE_BYTES);
        let events: Vec<serde_json::Value> = serde_json::from_str(&(text + "]")).unwrap();
        assert!(events.len() > 500);
    }

    #[test]
    fn only_the_window_is_written_and_a_full_disk_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.json");
        let sink = Sink::create(&path, 4000, 100..200).unwrap();
        for (first, end) in [(0, 99), (50, 100), (150, 151), (199, 300), (200, 201)] {
            sink.slice(TRACK, &"x", first, end, format_args!(""));
        }
        assert_eq!(sink.finish().unwrap().events, 3);
        assert_eq!(read(&path).len(), 3);
        let full = Sink::create(Path::new("/dev/full"), 4000, 0..1);
        assert!(full.is_err_and(|error| error.kind() == io::ErrorKind::StorageFull));
    }
}
