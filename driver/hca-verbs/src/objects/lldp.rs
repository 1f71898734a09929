//! What the neighbour on an Ethernet link says of itself (LLDP), as it came; `hca_wire::lldp` reads it.

use hca_abi::QueryLldpResult;
use hca_driver::DevicePtr;

use crate::objects::context::Context;
use crate::values::error::{Error, Result};

/// A neighbour may speak between two parts of an answer; so often in a row it is a flood.
const TRIES: u32 = 8;

/// LLDP of an Ethernet port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LldpStatus {
    /// The port tells its neighbour who it is.
    pub tx: bool,
    /// The TLVs of the neighbour, without an end; empty: nobody has been heard, or not for long.
    pub tlvs: Vec<u8>,
    /// Seconds until it is forgotten.
    pub left_s: u32,
    /// LLDPDUs sent. Counters stop at their end.
    pub sent: u32,
    /// LLDPDUs received.
    pub received: u32,
    /// Those of them that were malformed, and counted nothing.
    pub malformed: u32,
    /// Neighbours forgotten because they fell silent.
    pub aged_out: u32,
    /// Neighbours forgotten because another one came.
    pub replaced: u32,
}

impl<P: DevicePtr> Context<P> {
    /// What an Ethernet port and its neighbour tell each other.
    pub fn lldp_status(&self, port_num: u8) -> Result<LldpStatus> {
        for _ in 0..TRIES {
            let first = self.function().query_lldp(port_num, 0)?;
            if let Some(tlvs) = self.rest_of(port_num, &first)? {
                return Ok(LldpStatus {
                    tx: first.tx(),
                    tlvs,
                    left_s: first.left_s(),
                    sent: first.sent(),
                    received: first.received(),
                    malformed: first.malformed(),
                    aged_out: first.aged_out(),
                    replaced: first.replaced(),
                });
            }
        }
        Err(Error::Invalid(format!(
            "port {port_num} hears LLDP frames faster than they can be read"
        )))
    }

    /// All TLVs; `None`: others have come meanwhile.
    fn rest_of(&self, port_num: u8, first: &QueryLldpResult) -> Result<Option<Vec<u8>>> {
        let len = usize::from(first.bytes());
        let mut tlvs = first.tlvs().to_vec();
        for part in 1.. {
            if tlvs.len() >= len {
                break;
            }
            let next = self.function().query_lldp(port_num, part)?;
            if (next.received(), next.bytes()) != (first.received(), first.bytes()) {
                return Ok(None);
            }
            tlvs.extend(next.tlvs());
        }
        tlvs.truncate(len);
        Ok(Some(tlvs))
    }
}
