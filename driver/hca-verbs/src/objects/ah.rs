//! Address handles: where datagrams go.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hca_abi::{LinkLayer, QueryPortResult as PortAttr, StaticRate};
use hca_driver::{AddressVector, Destination, DevicePtr};

use crate::objects::context::Context;
use crate::objects::pd::{Pd, PdShared};
use crate::values::address::AhAttr;
use crate::values::error::{Error, Result};
use crate::values::gid::{Gid, is_ipv4};

/// kbit/s in the unit of static rates.
const KBPS_PER_100MBPS: u32 = 100_000;

/// Address handle: ibv_ah. It is the driver's own object: the card gets its content with each datagram. Its protection
/// domain lives as long as it does.
pub struct Ah<P: DevicePtr> {
    pd: Arc<PdShared<P>>,
    attr: AhAttr,
    vector: AddressVector,
}

debug_as!(Ah, attr);

fn invalid<T>(reason: String) -> Result<T> {
    Err(Error::Invalid(format!("ah_attr: {reason}")))
}

impl<P: DevicePtr> Pd<P> {
    /// ibv_create_ah: the way to a port elsewhere, for datagrams of QPs of this domain and of the port that it leads
    /// through. On Ethernet the MAC address behind the GID is found now, unless `attr` has one.
    pub fn create_ah(&self, attr: &AhAttr) -> Result<Ah<P>> {
        Ah::new(self.inner().clone(), attr)
    }
}

impl<P: DevicePtr> Ah<P> {
    pub(crate) fn new(pd: Arc<PdShared<P>>, attr: &AhAttr) -> Result<Self> {
        pd.check_alive()?;
        let context = Context::from_shared(pd.shared.clone());
        let ports = context.query_device()?.phys_port_cnt();
        if !(1..=ports).contains(&attr.port_num) {
            return invalid(format!(
                "port_num {}: the card has ports 1 to {ports}",
                attr.port_num
            ));
        }
        let port = context.query_port(attr.port_num)?;
        let is_ethernet = port.link_layer() == u8::from(LinkLayer::Ethernet);
        let sgid = source_gid(&context, &port, attr)?;
        if is_ethernet {
            check_ethernet(attr, &sgid)?;
        } else {
            check_infiniband(attr, &port)?;
        }
        check_rate(&context, attr.static_rate)?;
        let mut attr = *attr;
        if is_ethernet && attr.dmac == [0; 6] {
            attr.dmac = context.resolve_gid(attr.port_num, attr.dgid)?;
        }
        let vector = AddressVector::new(pd.pd, &attr.to_abi()?, is_ethernet);
        pd.address_handles.fetch_add(1, Ordering::AcqRel);
        Ok(Self { pd, attr, vector })
    }

    /// The same way in another partition of its port: datagrams of a QP1 have the P_Key of this index (KEY-21). Those
    /// of other QPs have their QP's.
    pub fn in_partition(mut self, pkey_index: u16) -> Result<Self> {
        let context = Context::from_shared(self.pd.shared.clone());
        let entries = context.query_port(self.attr.port_num)?.pkey_tbl_len();
        match u8::try_from(pkey_index) {
            Ok(index) if pkey_index < entries => {
                self.vector = self.vector.in_partition(index);
                Ok(self)
            }
            _ => invalid(format!("P_Key index {pkey_index}: the port has {entries} P_Keys")),
        }
    }

    /// What it was made with; on Ethernet with the MAC address that was found.
    pub fn attr(&self) -> AhAttr {
        self.attr
    }

    /// Number of its protection domain.
    pub fn pd_handle(&self) -> u32 {
        self.pd.pd
    }

    /// The way, as work requests have it.
    pub fn vector(&self) -> &AddressVector {
        &self.vector
    }

    /// A QP at its end. With bit 31 of the Q_Key set the sending QP's own goes out instead (KEY-24).
    pub fn to(&self, remote_qpn: u32, remote_qkey: u32) -> Destination<'_> {
        Destination {
            address: &self.vector,
            remote_qpn,
            remote_qkey,
        }
    }
}

impl<P: DevicePtr> Drop for Ah<P> {
    fn drop(&mut self) {
        self.pd.address_handles.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The GID that sgid_index names; of a path without a GRH nobody looks at it.
fn source_gid<P: DevicePtr>(context: &Context<P>, port: &PortAttr, attr: &AhAttr) -> Result<Gid> {
    if !attr.is_global {
        return Ok([0; 16]);
    }
    let (index, entries) = (attr.sgid_index, port.gid_tbl_len());
    if u32::from(index) >= entries {
        return invalid(format!("sgid_index {index}: the port has {entries} GIDs"));
    }
    match context.query_gid(attr.port_num, index.into())? {
        gid if gid == [0; 16] => invalid(format!("sgid_index {index}: that entry of the table is empty")),
        gid => Ok(gid),
    }
}

/// QPS-21, SYS-5: a GRH; source and destination in one header, so either both are IPv4 addresses or none.
fn check_ethernet(attr: &AhAttr, sgid: &Gid) -> Result<()> {
    if !attr.is_global {
        return invalid("is_global must be set on Ethernet, where every packet has a GRH".into());
    }
    if is_ipv4(sgid) != is_ipv4(&attr.dgid) {
        let index = attr.sgid_index;
        return invalid(format!(
            "one of dgid and source GID {index} is an IPv4 address, the other is not"
        ));
    }
    Ok(())
}

/// ADDR-4: the source LID must be one of the port's.
fn check_infiniband(attr: &AhAttr, port: &PortAttr) -> Result<()> {
    // A port that nobody has given one has this LID, and reaches itself by it.
    if attr.dlid == 0 && port.lid() != 0 {
        return invalid("dlid 0 is no LID".into());
    }
    let lmc = port.lmc();
    if attr.src_path_bits >> lmc.min(7) != 0 {
        let bits = attr.src_path_bits;
        return invalid(format!("src_path_bits {bits}: the LMC of the port is {lmc}"));
    }
    Ok(())
}

/// RATE-5: a packet of a datagram leaves at the port's rate.
fn check_rate<P: DevicePtr>(context: &Context<P>, static_rate: u8) -> Result<()> {
    let Ok(rate) = StaticRate::try_from(static_rate) else {
        return invalid(format!("static_rate {static_rate} is no rate"));
    };
    let port_kbps = context.query_device()?.pacing_max_kbps();
    match rate.in_100mbps() {
        Some(rate) if rate * KBPS_PER_100MBPS < port_kbps => Err(Error::Unsupported(format!(
            "ah_attr: static_rate {static_rate} is slower than the port, and datagrams cannot be held back: 0 is the \
             port's own rate"
        ))),
        _ => Ok(()),
    }
}
