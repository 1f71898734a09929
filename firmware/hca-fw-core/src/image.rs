//! Which firmware it is, for those who ask.

/// The image that runs.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    /// Major, minor, patch in bits 31:16, 15:8, 7:0.
    pub version: u32,
    /// SHA-256; zero of firmware that is a part of the simulator.
    pub digest: [u8; 32],
    /// It runs on the card's own processor.
    pub on_core: bool,
}

impl Image {
    /// A part of the simulator.
    pub const fn native() -> Self {
        let [major, minor, patch] = crate::VERSION;
        Self {
            version: (major as u32) << 16 | (minor as u32) << 8 | patch as u32,
            digest: [0; 32],
            on_core: false,
        }
    }
}
