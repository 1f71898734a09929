//! Flow steering (V-155, V-156): the specs of a program, which lie packed behind ibv_flow_attr.

use std::ffi::c_int;
use std::sync::{Arc, Mutex};

use hca_verbs::{EthFilter, FlowAttr, FlowKind, FlowSpec, Ipv4Filter, Ipv6Filter, PortFilter};

use crate::abi::*;
use crate::boundary::live::{CStruct, get, lock, publish, put_back, retire};
use crate::boundary::{Errno, Verb, destroyed, invalid, pointer, status, unsupported};
use crate::objects::counters::{CountersObject, Sums};
use crate::objects::flow::FlowObject;
use crate::objects::qp::QpObject;

/// Type and size of every spec.
#[repr(C)]
#[derive(Clone, Copy)]
struct SpecHead {
    type_: ibv_flow_spec_type,
    size: u16,
}

fn eth(f: &ibv_flow_eth_filter) -> EthFilter {
    EthFilter {
        dst_mac: f.dst_mac,
        src_mac: f.src_mac,
        ether_type: u16::from_be(f.ether_type),
        vlan_tag: u16::from_be(f.vlan_tag),
    }
}

fn ipv4(f: &ibv_flow_ipv4_filter) -> Ipv4Filter {
    Ipv4Filter {
        src_ip: f.src_ip.to_ne_bytes(),
        dst_ip: f.dst_ip.to_ne_bytes(),
        ..Ipv4Filter::default()
    }
}

fn ipv4_ext(f: &ibv_flow_ipv4_ext_filter) -> Ipv4Filter {
    Ipv4Filter {
        src_ip: f.src_ip.to_ne_bytes(),
        dst_ip: f.dst_ip.to_ne_bytes(),
        proto: f.proto,
        tos: f.tos,
        ttl: f.ttl,
        flags: f.flags,
    }
}

fn ipv6(f: &ibv_flow_ipv6_filter) -> Ipv6Filter {
    Ipv6Filter {
        src_ip: f.src_ip,
        dst_ip: f.dst_ip,
        flow_label: u32::from_be(f.flow_label),
        next_hdr: f.next_hdr,
        traffic_class: f.traffic_class,
        hop_limit: f.hop_limit,
    }
}

fn ports(f: &ibv_flow_tcp_udp_filter) -> PortFilter {
    PortFilter {
        dst_port: u16::from_be(f.dst_port),
        src_port: u16::from_be(f.src_port),
    }
}

/// What the specs of a rule say.
#[derive(Default)]
struct Said {
    specs: Vec<FlowSpec>,
    drops: bool,
    tag: Option<u32>,
    sums: Option<Arc<Sums>>,
}

impl Said {
    fn set_tag(&mut self, tag: u32) -> Verb<()> {
        match self.tag.replace(tag) {
            None => Ok(()),
            Some(_) => Err(invalid("flow: two tags")),
        }
    }

    /// The counters object is looked up: a rule keeps what it counts for.
    fn set_counters(&mut self, counters: *mut ibv_counters) -> Verb<()> {
        // SAFETY: looked up first.
        let object = unsafe { get(counters.cast::<CountersObject>())? };
        match self.sums.replace(object.sums.clone()) {
            None => Ok(()),
            Some(_) => Err(invalid("flow: two counters objects")),
        }
    }
}

/// Takes the spec at the beginning of `bytes`; its size.
fn take_spec(said: &mut Said, bytes: &[u8]) -> Verb<usize> {
    /// `T` at the beginning, if the program says that it is there.
    fn read<T: Copy>(bytes: &[u8], what: &str) -> Verb<T> {
        if bytes.len() < size_of::<T>() {
            return Err(invalid(format_args!(
                "flow: a spec of {what} has {} bytes",
                size_of::<T>()
            )));
        }
        // SAFETY: there are so many bytes, and any of them are a value of these plain structures.
        Ok(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
    }
    let head: SpecHead = read(bytes, "type and size")?;
    let size = usize::from(head.size);
    let body = bytes
        .get(..size)
        .ok_or_else(|| invalid("flow: a spec ends behind the attributes"))?;
    match head.type_ {
        IBV_FLOW_SPEC_ACTION_TAG => {
            let s: ibv_flow_spec_action_tag = read(body, "a tag")?;
            said.set_tag(s.tag_id)?;
            return Ok(size);
        }
        IBV_FLOW_SPEC_ACTION_DROP => {
            let _: ibv_flow_spec_action_drop = read(body, "a drop")?;
            said.drops = true;
            return Ok(size);
        }
        IBV_FLOW_SPEC_ACTION_COUNT => {
            let s: ibv_flow_spec_counter_action = read(body, "counters")?;
            said.set_counters(s.counters)?;
            return Ok(size);
        }
        _ => {}
    }
    let spec = match head.type_ {
        IBV_FLOW_SPEC_ETH => {
            let s: ibv_flow_spec_eth = read(body, "an Ethernet header")?;
            FlowSpec::Eth(eth(&s.val), eth(&s.mask))
        }
        IBV_FLOW_SPEC_IPV4 => {
            let s: ibv_flow_spec_ipv4 = read(body, "an IPv4 header")?;
            FlowSpec::Ipv4(ipv4(&s.val), ipv4(&s.mask))
        }
        IBV_FLOW_SPEC_IPV4_EXT => {
            let s: ibv_flow_spec_ipv4_ext = read(body, "an IPv4 header")?;
            FlowSpec::Ipv4(ipv4_ext(&s.val), ipv4_ext(&s.mask))
        }
        IBV_FLOW_SPEC_IPV6 => {
            let s: ibv_flow_spec_ipv6 = read(body, "an IPv6 header")?;
            FlowSpec::Ipv6(ipv6(&s.val), ipv6(&s.mask))
        }
        IBV_FLOW_SPEC_TCP | IBV_FLOW_SPEC_UDP => {
            let s: ibv_flow_spec_tcp_udp = read(body, "a TCP or UDP header")?;
            if head.type_ == IBV_FLOW_SPEC_TCP {
                FlowSpec::Tcp(ports(&s.val), ports(&s.mask))
            } else {
                FlowSpec::Udp(ports(&s.val), ports(&s.mask))
            }
        }
        other => {
            return Err(unsupported(format_args!(
                "flow spec of type {other:#x}: rules know ETH, IPV4, IPV4_EXT, IPV6, TCP, UDP, TAG, DROP and COUNT"
            )));
        }
    };
    said.specs.push(spec);
    Ok(size)
}

fn kind_of(kind: ibv_flow_attr_type) -> Verb<FlowKind> {
    Ok(match kind {
        IBV_FLOW_ATTR_NORMAL => FlowKind::Normal,
        IBV_FLOW_ATTR_ALL_DEFAULT => FlowKind::AllDefault,
        IBV_FLOW_ATTR_MC_DEFAULT => FlowKind::McDefault,
        IBV_FLOW_ATTR_SNIFFER => FlowKind::Sniffer,
        _ => return Err(invalid(format_args!("flow of type {kind}: there are 0 to 3"))),
    })
}

pub unsafe extern "C" fn create_flow(raw: *mut ibv_qp, attr: *mut ibv_flow_attr) -> *mut ibv_flow {
    pointer(|| {
        // SAFETY: looked up first; the program's structure, or NULL.
        let (qp, head) = unsafe {
            let head = attr.as_ref().ok_or(Errno(libc::EINVAL))?;
            (get(raw.cast::<QpObject>())?, head)
        };
        if head.comp_mask != 0 || head.flags & !IBV_FLOW_ATTR_FLAGS_DONT_TRAP != 0 {
            return Err(unsupported(
                "ibv_create_flow: of the flags DONT_TRAP is there, and no comp_mask",
            ));
        }
        let kind = kind_of(head.type_)?;
        let mut said = Said::default();
        // Specs say their own sizes, one behind the other. `size` of the attributes counts those behind them, or not:
        // pyverbs leaves them out, and no kernel looks at it.
        let mut at = attr.wrapping_add(1).cast::<u8>();
        for _ in 0..head.num_of_specs {
            // SAFETY: the program says that there is one more spec here; its head says how long it is.
            let bytes = unsafe {
                let size = at.cast::<SpecHead>().read_unaligned().size;
                std::slice::from_raw_parts(at, usize::from(size).max(size_of::<SpecHead>()))
            };
            at = at.wrapping_add(take_spec(&mut said, bytes)?);
        }
        let rule = FlowAttr {
            kind,
            priority: head.priority,
            port_num: head.port,
            dont_trap: head.flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP != 0,
            drops: said.drops,
            tag: said.tag.unwrap_or(0),
            specs: &said.specs,
        };
        let flow = qp.inner.with(|inner| inner.qp.create_flow(&rule))?;
        // SAFETY: a live QP, and a field that nobody changes.
        let context = unsafe { (*raw).context };
        let out = CStruct::new(ibv_flow {
            comp_mask: 0,
            context,
            handle: flow.handle(),
        });
        let flow = Arc::new(Mutex::new(flow));
        let object = publish(FlowObject {
            raw: out,
            flow: flow.clone(),
            sums: said.sums.clone(),
        })?;
        if let Some(sums) = &said.sums {
            sums.attach(flow);
        }
        Ok(object.cast())
    })
}

pub unsafe extern "C" fn destroy_flow(flow: *mut ibv_flow) -> c_int {
    status(|| {
        let object = retire(flow.cast::<FlowObject>())?;
        let gone = match &object.sums {
            Some(sums) => sums.detach(&object.flow),
            None => lock(&object.flow).destroy(),
        };
        if let Err(errno) = destroyed(gone) {
            put_back(object);
            return Err(errno);
        }
        Ok(())
    })
}
