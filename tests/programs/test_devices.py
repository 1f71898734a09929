"""ibv_devices, ibv_devinfo (ACC-11): the cards are listed, and every attribute is the card's own."""

import ipaddress
import re

import pytest

pytestmark = pytest.mark.quick
LINKS = pytest.mark.parametrize("link", ["eth", "ib"])
# V-30, V-31: what no field of QUERY_DEVICE stands for: the card has none of it.
ABSENT = {"max_ee_rd_atom": "0", "max_ee_init_rd_atom": "0", "max_ee": "0", "max_rdd": "0", "max_fmr": "0",
          "general_odp_caps": "", "rc_odp_caps": "", "uc_odp_caps": "", "ud_odp_caps": "", "xrc_odp_caps": "",
          "tso_caps": "", "rss_caps": "", "packet_pacing_caps": "", "max_rwq_indirection_tables": "0",
          "max_rwq_indirection_table_size": "0", "rx_hash_function": "0x0", "rx_hash_fields_mask": "0x0",
          "max_wq_type_rq": "0"}
ATOMIC_CAPS = ["ATOMIC_NONE", "ATOMIC_HCA", "ATOMIC_GLOB"]
PORT_STATES = {1: "PORT_DOWN", 2: "PORT_INIT", 3: "PORT_ARMED", 4: "PORT_ACTIVE"}
PHYS_STATES = {3: "DISABLED", 5: "LINK_UP"}
WIDTHS = {1: "1", 2: "4", 4: "8", 8: "12"}
SPEEDS = {1: "2.5 Gbps", 2: "5.0 Gbps", 4: "5.0 Gbps", 8: "10.0 Gbps", 16: "14.0 Gbps", 32: "25.0 Gbps",
          64: "50.0 Gbps"}
LANES = {1: "1", 2: "2", 3: "4", 4: "8", 5: "15"}


def guid(digits):
    return ":".join(digits[at:at + 4] for at in range(0, 16, 4))


def usable_cqes(ring):
    """Of the largest ring a quarter is the driver's reserve: so much lag of its consumer index it allows itself."""
    return ring - -(-ring // 4)


def attributes_of_device(card):
    """What `ibv_devinfo -v` must print, from what the card says itself."""
    says = card["attributes"]
    same = ["vendor_part_id", "phys_port_cnt", "max_qp", "max_qp_wr", "max_sge", "max_sge_rd", "max_cq", "max_mr",
            "max_pd", "max_qp_rd_atom", "max_res_rd_atom", "max_qp_init_rd_atom", "max_mw", "max_raw_ipv6_qp",
            "max_raw_ethy_qp", "max_mcast_grp", "max_mcast_qp_attach", "max_total_mcast_qp_attach", "max_ah", "max_srq",
            "max_pkeys", "local_ca_ack_delay", "max_tso"]
    if says["max_srq"]:
        same += ["max_srq_wr", "max_srq_sge"]
    # ibv_devinfo has names for the pacing of UD and raw packet QPs only.
    paced = {"supported_qp": "", "Unknown flags": f"0x{says['pacing_qp_types']:X}"} if says["pacing_max_kbps"] else {}
    return ABSENT | paced | {name: str(says[name]) for name in same} | {
        "transport": "InfiniBand (0)",
        "fw_ver": f"{says['fw_ver_major']}.{says['fw_ver_minor']}.{says['fw_ver_patch']}",
        "node_guid": guid(says["node_guid"]),
        "sys_image_guid": guid(says["sys_image_guid"]),
        "vendor_id": f"0x{says['vendor_id']:04x}",
        "board_id": "simulated",
        "hw_ver": f"0x{says['hw_ver']:X}",
        "max_mr_size": f"0x{says['max_mr_size']:x}",
        "page_size_cap": f"0x{says['page_size_cap']:x}",
        "device_cap_flags": f"0x{says['device_cap_flags'] & 0xffffffff:08x}",
        "device_cap_flags_ex": f"0x{says['device_cap_flags']:X}",
        "max_cqe": str(usable_cqes(says["max_cqe"])),
        "atomic_cap": f"{ATOMIC_CAPS[says['atomic_cap']]} ({says['atomic_cap']})",
        "completion timestamp_mask": f"0x{says['completion_timestamp_mask']:016x}",
        "hca_core_clock": f"{says['hca_core_clock_khz']}kHZ",
        "qp_rate_limit_min": f"{says['pacing_min_kbps']}kbps",
        "qp_rate_limit_max": f"{says['pacing_max_kbps']}kbps",
        "num_comp_vectors": "4",
        "cq moderation caps": "",
        "max_cq_count": str(says["max_cq_count"]),
        "max_cq_period": f"{says['max_cq_period_us']} us",
        "maximum available device memory": f"{says['max_dm_size']}Bytes",
    }


def attributes_of_port(port):
    says = port["attributes"]
    mtu = lambda code: f"{128 << code} ({code})"  # noqa: E731
    values = {
        "state": f"{PORT_STATES[says['state']]} ({says['state']})",
        "max_mtu": mtu(says["max_mtu"]),
        "active_mtu": mtu(says["active_mtu"]),
        "sm_lid": str(says["sm_lid"]),
        "port_lid": str(says["lid"]),
        "port_lmc": f"0x{says['lmc']:02x}",
        "link_layer": {"eth": "Ethernet", "ib": "InfiniBand"}[port["link"]],
        "max_msg_sz": f"0x{says['max_msg_sz']:x}",
        "port_cap_flags": f"0x{says['port_cap_flags']:08x}",
        "port_cap_flags2": f"0x{says['port_cap_flags2']:04x}",
        "max_vl_num": f"{LANES[says['max_vl_num']]} ({says['max_vl_num']})",
        "bad_pkey_cntr": f"0x{says['bad_pkey_cntr']:x}",
        "qkey_viol_cntr": f"0x{says['qkey_viol_cntr']:x}",
        "sm_sl": str(says["sm_sl"]),
        "pkey_tbl_len": str(says["pkey_tbl_len"]),
        "gid_tbl_len": str(says["gid_tbl_len"]),
        "subnet_timeout": str(says["subnet_timeout"]),
        "init_type_reply": str(says["init_type_reply"]),
        "active_width": f"{WIDTHS[says['active_width']]}X ({says['active_width']})",
        "active_speed": f"{SPEEDS[says['active_speed']]} ({says['active_speed']})",
        "phys_state": f"{PHYS_STATES[says['phys_state']]} ({says['phys_state']})",
    }
    for index, gid in enumerate(port["gids"]):
        whole = ipaddress.ip_address(gid).exploded
        values[f"GID[{index:3}]"] = f"{gid}, RoCE v2" if port["link"] == "eth" else whole
    return values


def parse(text):
    """Attributes of device and port as printed: {name: value}; names of flags stand under the flags."""
    device, port, flags = {}, None, []
    for line in text.splitlines():
        found = re.match(r"\s*(port|GID\[ *\d+\]|[\w ]+?):\t*\s*(.*)$", line)
        if found and found[1] == "port":
            port = {}
        elif found:
            (device if port is None else port)[found[1].strip()] = found[2].strip()
        elif line.strip() and line.strip() not in ("NO SUPPORT", "tag matching not supported"):
            flags.append(line.strip())
    return device, port, flags


def differences(shown, wanted):
    return {name: (shown.get(name), wanted.get(name)) for name in shown.keys() | wanted.keys()
            if shown.get(name) != wanted.get(name)}


@LINKS
def test_devices(simulators, row, link):
    row("ibv_devices", link=link)
    sim = simulators(link=link)
    done = sim.run(None, "ibv_devices")
    assert done.code == 0, done
    shown = [tuple(line.split()) for line in done.text.splitlines()[2:]]
    assert shown == [(f"hca{card['card']}", card["node_guid"]) for card in sim.info()]


@LINKS
def test_devinfo(simulators, row, link):
    row("ibv_devinfo", link=link)
    sim = simulators(link=link)
    done = sim.run(None, "ibv_devinfo")
    assert done.code == 0, done
    blocks = done.text.split("hca_id:\t")[1:]
    assert len(blocks) == 2
    for card, block in zip(sim.info(), blocks, strict=True):
        assert block.startswith(f"hca{card['card']}\n")
        device, port, _ = parse(block.split("\n", 1)[1])
        wanted, of_port = attributes_of_device(card), attributes_of_port(card["ports"][0])
        assert differences(device, {name: wanted[name] for name in device}) == {}
        assert differences(port, {name: of_port[name] for name in port}) == {}
        assert {"fw_ver", "node_guid", "vendor_id"} <= device.keys() and {"state", "active_mtu"} <= port.keys()


@LINKS
@pytest.mark.parametrize("busy", [False, True], ids=["alone", "busy"])
def test_devinfo_of_every_attribute(simulators, row, link, busy):
    """V-30 to V-36; the same while another process has the card open."""
    row("ibv_devinfo", "-v, while another process has the card" if busy else "-v", link)
    sim = simulators(link=link)
    watcher = sim.start(0, "ibv_asyncwatch", live=True) if busy else None
    if watcher:
        watcher.prints("async event FD")
    done = sim.run(0, "ibv_devinfo", "-v")
    card = sim.info(0)
    if watcher:
        assert not watcher.ended(), watcher.done()
        assert card["function"] != 1, "the watcher has function 1: programs begin there"
        watcher.kill()
    assert done.code == 0, done
    device, port, flags = parse(done.text.split("\n", 1)[1])
    assert differences(device, attributes_of_device(card)) == {}
    assert differences(port, attributes_of_port(card["ports"][0])) == {}
    # Flags of the card by name, so many names as bits; those of ports have none here.
    mask = card["attributes"]["device_cap_flags"] & 0xffffffff
    assert len(flags) == mask.bit_count(), flags
