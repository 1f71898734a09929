//! Switches: what the file says, and its gaps filled.

use hca_switch::{
    EcnConfig, EthSwitch, EthSwitchConfig, IbSwitch, IbSwitchConfig, MLID_MIN, PORTS_MAX, VlArbConfig,
};

use crate::check::{problem, range};
use crate::file::{self, Arbitration, Kind, Problem};
use crate::{IbSwitchSpec, SwitchSpec};

/// Ports of a switch for which neither the file nor its links need more.
pub(crate) const DEFAULT_PORTS: u8 = 8;
/// From a packet's last bit to its way out.
const LATENCY_NS: u64 = 100;

/// Everything of a switch but its tables, and its ports' number where its links decide that.
pub(crate) fn read(
    raw: &file::Switch,
    name: &str,
    default_kind: Kind,
    cycle_ps: u64,
) -> Result<SwitchSpec, Problem> {
    let place = format!("switch {name}");
    let kind = raw.kind.unwrap_or(default_kind);
    let (other, other_name) = match kind {
        Kind::InfiniBand => (Kind::Ethernet, "Ethernet"),
        Kind::Ethernet => (Kind::InfiniBand, "InfiniBand"),
    };
    if let Some(key) = raw.keys_of(other).next() {
        return Err(problem(
            place,
            format!("only switches of kind {other_name} have {key}"),
        ));
    }
    range(&place, "ports", raw.ports.unwrap_or(DEFAULT_PORTS), 1, PORTS_MAX)?;
    match kind {
        Kind::InfiniBand => infiniband(raw, name, &place, cycle_ps),
        Kind::Ethernet => ethernet(raw, name, &place, cycle_ps),
    }
}

/// Cycles of a time, rounded up.
fn cycles(place: &str, key: &str, time_ns: u64, cycle_ps: u64) -> Result<u64, Problem> {
    range(place, key, time_ns, 0, 1_000_000_000)?;
    Ok((time_ns * 1000).div_ceil(cycle_ps))
}

fn infiniband(raw: &file::Switch, name: &str, place: &str, cycle_ps: u64) -> Result<SwitchSpec, Problem> {
    let mut config = IbSwitchConfig::new(name, raw.ports.unwrap_or(DEFAULT_PORTS));
    let latency_ns = raw.latency_ns.unwrap_or(LATENCY_NS);
    config.forward_cycles = cycles(place, "latency_ns", latency_ns, cycle_ps)?;
    if let Some(vls) = raw.vls {
        config.data_vls = vls;
    }
    if let Some(mtu) = raw.mtu {
        config.mtu_bytes = mtu;
    }
    if let Some(bytes) = raw.buffer_bytes {
        config.buffer_blocks = bytes / 64;
    }
    if let Some(time_ns) = raw.hoq_life_ns {
        config.hoq_life_cycles = Some(cycles(place, "hoq_life_ns", time_ns, cycle_ps)?.max(1));
    }
    if let Some(fcp_max_cycles) = raw.fcp_max_cycles {
        config.fcp_max_cycles = fcp_max_cycles;
    }
    Ok(SwitchSpec::InfiniBand(IbSwitchSpec {
        config,
        routes: Vec::new(),
        sl2vl: Vec::new(),
        arbitration: Vec::new(),
    }))
}

fn ethernet(raw: &file::Switch, name: &str, place: &str, cycle_ps: u64) -> Result<SwitchSpec, Problem> {
    let mut config = EthSwitchConfig::new(name, raw.ports.unwrap_or(DEFAULT_PORTS));
    let latency_ns = raw.latency_ns.unwrap_or(LATENCY_NS);
    config.forward_cycles = cycles(place, "latency_ns", latency_ns, cycle_ps)?;
    if let Some(bytes) = raw.queue_bytes {
        config.queue_bytes = bytes;
    }
    if let Some(weights) = raw.weights {
        config.weights = weights;
    }
    if let Some(pfc) = &raw.pfc {
        for priority in &pfc.priorities {
            range(place, "pfc.priorities", *priority, 0, 7)?;
            config.pfc.priorities |= 1 << priority;
        }
        let of = &mut config.pfc;
        of.xoff_bytes = pfc.xoff_bytes.unwrap_or(of.xoff_bytes);
        of.xon_bytes = pfc.xon_bytes.unwrap_or(of.xon_bytes);
        of.headroom_bytes = pfc.headroom_bytes.unwrap_or(of.headroom_bytes);
    }
    config.lldp = raw.lldp == Some(true);
    config.priorities.trust_pcp = raw.trust == Some(file::Trust::Pcp);
    for (name, priority) in &raw.dscp {
        let dscp = name
            .parse()
            .ok()
            .filter(|dscp: &usize| *dscp < config.priorities.dscp.len());
        let explain = || problem(place, format!("dscp has '{name}', which is no DSCP of 0 to 63"));
        range(place, "dscp", *priority, 0, 7)?;
        config.priorities.dscp[dscp.ok_or_else(explain)?] = *priority;
    }
    config.ecn = raw.ecn.map(|ecn| EcnConfig {
        min_bytes: ecn.min_bytes,
        max_bytes: ecn.max_bytes,
        probability: ecn.probability,
    });
    Ok(SwitchSpec::Ethernet(config))
}

/// Tables of a switch whose ports are known, and the last word on its parameters.
pub(crate) fn tables(raw: &file::Switch, switch: &mut SwitchSpec) -> Result<(), Problem> {
    let place = format!("switch {}", switch.name());
    // The switches themselves know what they can be, and name themselves.
    let file = |error| problem("file", error);
    match switch {
        SwitchSpec::InfiniBand(switch) => {
            ib_tables(raw, &place, switch)?;
            IbSwitch::new(switch.config.clone()).map_err(file)?;
        }
        SwitchSpec::Ethernet(config) => {
            EthSwitch::new(config.clone()).map_err(file)?;
        }
    }
    Ok(())
}

fn ib_tables(raw: &file::Switch, place: &str, switch: &mut IbSwitchSpec) -> Result<(), Problem> {
    let ports = switch.config.ports;
    if let Some(arbitration) = &raw.arbitration {
        let Arbitration {
            high,
            low,
            limit,
            policy,
            port,
        } = arbitration.clone();
        let common = file::PortArbitration {
            number: 0,
            high,
            low,
            limit,
            policy,
        };
        let mtu_bytes = switch.config.mtu_bytes;
        let base = arbitrate(&VlArbConfig::default(), &common, mtu_bytes);
        for port in &port {
            range(place, "arbitration.port.number", port.number, 1, ports)?;
            let config = arbitrate(&base, port, mtu_bytes);
            config
                .check()
                .map_err(|error| problem(format!("{place} port {}", port.number), error))?;
            switch.arbitration.push((port.number, config));
        }
        base.check().map_err(|error| problem(place, error))?;
        switch.config.arbitration = base;
    }
    for route in &raw.routes {
        range(place, "routes.port", route.port, 1, ports)?;
        range(place, "routes.lid", route.lid, 1, MLID_MIN - 1)?;
        switch.routes.push((route.lid, route.port));
    }
    for table in &raw.sl2vl {
        range(place, "sl2vl.from", table.from, 1, ports)?;
        range(place, "sl2vl.to", table.to, 1, ports)?;
        let vls: [u8; 16] = table.vls.as_slice().try_into().map_err(|_| {
            problem(
                place,
                format!("sl2vl.vls has {} entries, it must have 16", table.vls.len()),
            )
        })?;
        for vl in vls {
            range(place, "sl2vl.vls", vl, 0, 15)?;
        }
        switch.sl2vl.push((table.from, table.to, vls));
    }
    Ok(())
}

fn arbitrate(base: &VlArbConfig, own: &file::PortArbitration, mtu_bytes: u32) -> VlArbConfig {
    VlArbConfig {
        high: own.high.clone().unwrap_or_else(|| base.high.clone()),
        low: own.low.clone().unwrap_or_else(|| base.low.clone()),
        limit: own.limit.unwrap_or(base.limit),
        policy: own.policy.unwrap_or(base.policy),
        mtu_bytes,
    }
}
