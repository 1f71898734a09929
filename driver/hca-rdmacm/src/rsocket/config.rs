//! Defaults, and the administrator's files (RS-7).

use std::path::Path;
use std::sync::LazyLock;

use super::wire::{scale, unscale};

const FOLDER: &str = "/etc/rdma/rsocket";
/// Smallest and largest queue.
pub const MIN_QUEUE: u32 = 16;
pub const MAX_QUEUE: u32 = 0xfffe;
/// Smallest buffer: two low waters for sending, and two halves for receiving.
pub const MIN_BUFFER: u32 = 4096;
/// A buffer's offsets and lengths have 31 bits, and its halves one less.
pub const MAX_BUFFER: u32 = 1 << 30;

/// What a socket begins with, and its listener's where it comes from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    pub receive_bytes: u32,
    pub send_bytes: u32,
    pub send_queue: u32,
    pub receive_queue: u32,
    pub inline: u32,
    pub iomaps: u16,
    /// Before it sleeps, a call looks for so long.
    pub polling_us: u32,
    /// Longest sleep of rpoll.
    pub wake_up_ms: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            receive_bytes: 1 << 17,
            send_bytes: 1 << 17,
            send_queue: 384,
            receive_queue: 384,
            inline: 64,
            iomaps: 0,
            polling_us: 10,
            wake_up_ms: 5000,
        }
    }
}

impl Config {
    /// The defaults of this machine.
    pub fn of_machine() -> Self {
        static FOUND: LazyLock<Config> = LazyLock::new(|| Config::read(Path::new(FOLDER)));
        *FOUND
    }

    fn read(folder: &Path) -> Self {
        let of = |name: &str, otherwise: u32| {
            let text = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
            text.trim().parse().unwrap_or(otherwise)
        };
        let usual = Self::default();
        let mut config = Self {
            polling_us: of("polling_time", usual.polling_us),
            wake_up_ms: of("wake_up_interval", usual.wake_up_ms),
            ..usual
        };
        config.set_receive_bytes(of("mem_default", usual.receive_bytes));
        config.set_send_bytes(of("wmem_default", usual.send_bytes));
        config.set_send_queue(of("sqsize_default", usual.send_queue));
        config.set_receive_queue(of("rqsize_default", usual.receive_queue));
        config.set_iomaps(of("iomap_size", usual.iomaps.into()));
        config.inline = of("inline_default", usual.inline).min(MAX_QUEUE);
        config
    }

    /// Both halves have whole cache lines.
    pub fn set_receive_bytes(&mut self, bytes: u32) {
        self.receive_bytes = bytes.clamp(MIN_BUFFER, MAX_BUFFER) & !127;
    }

    pub fn set_send_bytes(&mut self, bytes: u32) {
        self.send_bytes = bytes.clamp(MIN_BUFFER, MAX_BUFFER);
    }

    pub fn set_send_queue(&mut self, entries: u32) {
        self.send_queue = entries.clamp(MIN_QUEUE, MAX_QUEUE);
    }

    pub fn set_receive_queue(&mut self, entries: u32) {
        self.receive_queue = entries.clamp(MIN_QUEUE, MAX_QUEUE);
    }

    /// As many as can be said in eight bits.
    pub fn set_iomaps(&mut self, count: u32) {
        self.iomaps = unscale(scale(count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RS-7.
    #[test]
    fn files_of_the_administrator() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Config::read(folder.path()), Config::default());
        let files = [
            ("mem_default", "1000000\n"),
            ("wmem_default", " 5 "),
            ("sqsize_default", "100"),
            ("rqsize_default", "1"),
            ("inline_default", "0"),
            ("iomap_size", "300"),
            ("polling_time", "7"),
            ("wake_up_interval", "not a number"),
        ];
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let expected = Config {
            receive_bytes: 999_936,
            send_bytes: MIN_BUFFER,
            send_queue: 100,
            receive_queue: MIN_QUEUE,
            inline: 0,
            iomaps: 256,
            polling_us: 7,
            wake_up_ms: 5000,
        };
        assert_eq!(Config::read(folder.path()), expected);
    }
}
