//! The version message: two numbers and a JSON object of capabilities.

use serde::{Deserialize, Serialize};

use crate::protocol::ProtocolError;

/// Protocol version spoken here.
pub const MAJOR: u16 = 0;
/// Protocol version spoken here.
pub const MINOR: u16 = 1;

/// Longest JSON text accepted.
const MAX_JSON_BYTES: usize = 4096;

/// What an end can do, or both of them. Unknown members are ignored, and nothing that is unknown is answered: QEMU
/// refuses values beyond its own, and writes several registers in one message where it is told that it may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// Descriptors per message.
    pub max_msg_fds: u32,
    /// Bytes per region access or DMA message.
    pub max_data_xfer_size: u64,
    /// Mappings at a time.
    pub max_dma_maps: u64,
    /// Page sizes of mappings: bit n for 2^n bytes.
    pub pgsizes: u64,
    /// Ours: the client's memory may be read and written by its addresses, so that mappings without a descriptor have
    /// bus address = address in the process. The client's /proc/self/mem comes with the greeting; without it the
    /// simulator opens that of the client's process id.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hca_process_memory: bool,
    /// Ours: BAR 4 is there, and register writes may be posted in it (see [`crate::SharedRegion`]).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hca_shared_region: bool,
}

impl Default for Capabilities {
    /// What the specification assumes when nothing is said.
    fn default() -> Self {
        Self {
            max_msg_fds: 1,
            max_data_xfer_size: 1 << 20,
            max_dma_maps: u16::MAX.into(),
            pgsizes: 4096,
            hca_process_memory: false,
            hca_shared_region: false,
        }
    }
}

impl Capabilities {
    /// What both ends can do. None: they have no page size in common.
    pub fn common(&self, other: &Self) -> Option<Self> {
        let pgsizes = self.pgsizes & other.pgsizes;
        (pgsizes != 0).then(|| Self {
            max_msg_fds: self.max_msg_fds.min(other.max_msg_fds),
            max_data_xfer_size: self.max_data_xfer_size.min(other.max_data_xfer_size),
            max_dma_maps: self.max_dma_maps.min(other.max_dma_maps),
            pgsizes,
            hca_process_memory: self.hca_process_memory && other.hca_process_memory,
            hca_shared_region: self.hca_shared_region && other.hca_shared_region,
        })
    }
}

#[derive(Serialize, Deserialize, Default)]
struct VersionData {
    #[serde(default)]
    capabilities: Capabilities,
}

/// To a payload; the minor version is [`MINOR`], or the peer's where that is lower.
pub fn encode_version(minor: u16, capabilities: &Capabilities) -> Vec<u8> {
    let data = VersionData {
        capabilities: capabilities.clone(),
    };
    let mut out = [MAJOR.to_le_bytes(), minor.to_le_bytes()].concat();
    out.extend(serde_json::to_vec(&data).unwrap_or_default());
    out.push(0);
    out
}

/// From a payload: major, minor, capabilities.
pub fn decode_version(bytes: &[u8]) -> Result<(u16, u16, Capabilities), ProtocolError> {
    let [a, b, c, d, json @ ..] = bytes else {
        return Err(ProtocolError::Length {
            what: "VERSION",
            found: bytes.len(),
            need: 4,
        });
    };
    if json.len() > MAX_JSON_BYTES {
        return Err(ProtocolError::Version("the JSON text is longer than 4096 bytes"));
    }
    let text = json.split(|byte| *byte == 0).next().unwrap_or(&[]);
    let data = if text.is_empty() {
        VersionData::default()
    } else {
        serde_json::from_slice(text).map_err(|_| ProtocolError::Version("no JSON object of capabilities"))?
    };
    Ok((
        u16::from_le_bytes([*a, *b]),
        u16::from_le_bytes([*c, *d]),
        data.capabilities,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_survive_and_default() {
        let ours = Capabilities {
            max_msg_fds: 32,
            hca_process_memory: true,
            ..Default::default()
        };
        assert_eq!(decode_version(&encode_version(0, &ours)), Ok((MAJOR, 0, ours)));
        assert_eq!(decode_version(&[0, 0, 1, 0]), Ok((0, 1, Capabilities::default())));
        // What QEMU sends.
        let text = b"\0\0\x01\0{\"capabilities\":{\"max_msg_fds\":8,\"max_data_xfer_size\":1048576,\
            \"pgsizes\":4096,\"max_dma_maps\":65535,\"migration\":{\"pgsize\":4096}}}\0";
        assert_eq!(
            decode_version(text).unwrap().2,
            Capabilities {
                max_msg_fds: 8,
                ..Default::default()
            }
        );
        for text in [
            "[1",
            "{\"capabilities\":7}",
            "{\"capabilities\":{\"pgsizes\":-1}}",
        ] {
            let bytes = [&[0; 4], text.as_bytes()].concat();
            assert!(decode_version(&bytes).is_err(), "{text}");
        }
        assert!(decode_version(&[0; 5000]).is_err());
    }

    #[test]
    fn the_less_able_end_decides() {
        let ours = Capabilities {
            max_msg_fds: 64,
            max_data_xfer_size: 1000,
            max_dma_maps: 1 << 20,
            pgsizes: !0xfff,
            hca_process_memory: true,
            hca_shared_region: true,
        };
        assert_eq!(ours.common(&ours), Some(ours.clone()));
        let theirs = Capabilities::default();
        let both = Capabilities {
            max_data_xfer_size: 1000,
            ..theirs.clone()
        };
        assert_eq!(ours.common(&theirs), Some(both.clone()));
        assert_eq!(theirs.common(&ours), Some(both.clone()));
        // Nothing of ours is said to who has not asked for it.
        let text = String::from_utf8(encode_version(0, &both)).unwrap();
        assert!(!text.contains("hca_"), "{text}");
        let pgsizes = 1 << 11;
        assert_eq!(ours.common(&Capabilities { pgsizes, ..theirs }), None);
    }
}
