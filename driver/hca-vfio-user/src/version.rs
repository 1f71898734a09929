//! The version message: two numbers and a JSON object of capabilities.

use serde::{Deserialize, Serialize};

use crate::protocol::ProtocolError;

/// Protocol version spoken here.
pub const MAJOR: u16 = 0;
/// Protocol version spoken here.
pub const MINOR: u16 = 1;

/// Longest JSON text accepted.
const MAX_JSON_BYTES: usize = 4096;

/// What the peer can do. Unknown members are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// Descriptors per message.
    pub max_msg_fds: u32,
    /// Bytes per region access or DMA message.
    pub max_data_xfer_size: u64,
    /// Ours: the client's memory may be read and written by process id and address, so that mappings without
    /// a descriptor have bus address = address in the process.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hca_process_memory: bool,
}

impl Default for Capabilities {
    /// What the specification assumes when nothing is said.
    fn default() -> Self {
        Self {
            max_msg_fds: 1,
            max_data_xfer_size: 1 << 20,
            hca_process_memory: false,
        }
    }
}

#[derive(Serialize, Deserialize, Default)]
struct VersionData {
    #[serde(default)]
    capabilities: Capabilities,
}

/// To a payload.
pub fn encode_version(capabilities: &Capabilities) -> Vec<u8> {
    let data = VersionData {
        capabilities: capabilities.clone(),
    };
    let mut out = [MAJOR.to_le_bytes(), MINOR.to_le_bytes()].concat();
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
        assert_eq!(decode_version(&encode_version(&ours)), Ok((MAJOR, MINOR, ours)));
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
        assert!(decode_version(b"\0\0\x01\0[1").is_err());
        assert!(decode_version(&[0; 5000]).is_err());
    }
}
