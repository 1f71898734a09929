"""The timing estimate on netlists of a few cells, whose paths a person can add up."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import pytest
from synth import paths
from synth.paths import Delays

D = Delays()
INPUTS = {"FDRE": ["C", "CE", "D", "R"], "LUT2": ["I0", "I1"], "CARRY8": ["CI", "DI", "S"], "MUXF7": ["I0", "I1", "S"],
          "RAMB36E2": ["CLKARDCLK", "ADDRARDADDR"], "RAM64X1D": ["A", "DPRA", "D", "WCLK"],
          "DSP48E2": ["A", "B", "CLK"]}


def cell(of, parameters=None, **pins):
    """A cell; a pin is a net bit or a list of them."""
    connections = {pin: bits if isinstance(bits, list) else [bits] for pin, bits in pins.items()}
    directions = {pin: "input" if pin in INPUTS[of] else "output" for pin in connections}
    return {"type": of, "parameters": parameters or {}, "port_directions": directions, "connections": connections}


def module(cells, ports=None, names=None):
    """As Yosys' write_json has it."""
    netnames = {name: {"hide_name": 0, "bits": bits} for name, bits in (names or {}).items()}
    ports = {name: {"direction": way, "bits": bits} for name, (way, bits) in (ports or {}).items()}
    return {"cells": cells, "ports": ports, "netnames": netnames}


def worst(netlist):
    return paths.analyse(netlist)["paths"][0]


def test_two_luts_between_registers():
    """Clock to out, two nets and LUTs, the last net, set-up; names are those of the registers."""
    net = module({"a": cell("FDRE", C=1, D="0", Q=2), "l1": cell("LUT2", I0=2, I1="1", O=3),
                  "l2": cell("LUT2", I0=3, I1=2, O=4), "b": cell("FDRE", C=1, D=4, Q=5)},
                 names={"from_q": [2], "middle": [3], "to_q": [5]})
    path = worst(net)
    assert path["ns"] == pytest.approx(D.clock_to_out + 2 * (D.net + D.lut) + D.net + D.setup)
    assert (path["start"], path["end"], path["luts"], path["via"]) == ("from_q", "to_q", 2, ("middle",))


def test_ports_are_registered():
    """A way through from port to port is a whole path; the clock is none."""
    net = module({"l": cell("LUT2", I0=2, I1=3, O=4), "r": cell("FDRE", C=1, D=2, Q=9)},
                 ports={"clk_i": ("input", [1]), "in_i": ("input", [2, 3]), "out_o": ("output", [4])})
    path = worst(net)
    assert path["ns"] == pytest.approx(D.clock_to_out + D.net + D.lut + D.net + D.setup, abs=0.005)
    assert path["end"] == "out_o"
    assert sum(paths.analyse(net)["ends"].values()) == 2


def test_carry_chain():
    """A LUT enters at S beside it, without a net; the next cell is a step away; the sum leaves."""
    net = module({"a": cell("FDRE", C=1, D="0", Q=2), "l": cell("LUT2", I0=2, I1="1", O=3),
                  "c1": cell("CARRY8", CI="0", DI=["0"] * 8, S=[3] + ["0"] * 7, CO=list(range(10, 18)), O=[20]),
                  "c2": cell("CARRY8", CI=17, DI=["0"] * 8, S=["0"] * 8, O=[30]),
                  "b": cell("FDRE", C=1, D=30, Q=40)}, names={"a_q": [2], "b_q": [40]})
    path = worst(net)
    expected = D.clock_to_out + D.net + D.lut + D.carry_entry + D.carry_step + D.carry_exit + D.net + D.setup
    assert path["ns"] == pytest.approx(expected, abs=0.005)
    assert path["carries"] == 2


def test_a_sum_bit_does_not_wait_for_those_above_it():
    assert paths.through("carry", ("O", 0), ("S", 1), "lut", D) is None
    assert paths.through("carry", ("O", 1), ("S", 0), "lut", D) is not None


def test_rams_are_starts():
    """Block RAM after its clock; LUT RAM after its address."""
    net = module({"m": cell("RAMB36E2", CLKARDCLK=1, ADDRARDADDR=9, DOUTADOUT=2), "b": cell("FDRE", C=1, D=2, Q=3)})
    path = worst(net)
    assert path["ns"] == pytest.approx(D.ram_out + D.net + D.setup) and path["start"] == "m"
    net = module({"a": cell("FDRE", C=1, D="0", Q=2), "m": cell("RAM64X1D", WCLK=1, A=[8], D=[9], DPRA=[2], DPO=[4]),
                  "b": cell("FDRE", C=1, D=4, Q=5)}, names={"a_q": [2]})
    path = worst(net)
    assert path["start"] == "a_q"
    assert path["ns"] == pytest.approx(D.clock_to_out + D.net + D.lut_ram + D.net + D.setup)


def test_address_of_the_other_port_of_a_lut_ram():
    assert not paths.is_read("A", "DPO") and paths.is_read("DPRA", "DPO") and paths.is_read("A3", "Q")
    assert paths.is_read("ADDRB", "DOB") and not paths.is_read("ADDRD", "DOB")


def test_multiplier_with_and_without_its_register():
    def of(preg):
        return module({"a": cell("FDRE", C=1, D="0", Q=2), "b": cell("FDRE", C=1, D=4, Q=5),
                       "p": cell("DSP48E2", {"PREG": preg}, CLK=1, A=[2], P=[4])}, names={"a_q": [2]})
    assert worst(of("0"))["ns"] > 2 * D.net + D.dsp
    registered = {path["start"]: path["ns"] for path in paths.analyse(of("1"))["paths"]}
    assert registered["p"] == pytest.approx(D.clock_to_out + D.net + D.setup, abs=0.005)


def test_mux_behind_luts():
    def entry(pin):
        return paths.through("mux", ("O", 0), (pin, 0), "lut", D)
    assert entry("I0") < D.net < entry("S")


def test_loop_is_counted_and_ends():
    net = module({"l1": cell("LUT2", I0=2, I1=5, O=3), "l2": cell("LUT2", I0=3, I1="0", O=2),
                  "b": cell("FDRE", C=1, D=3, Q=9)}, ports={"in_i": ("input", [5])})
    assert paths.analyse(net)["loops"] == 2


def test_unknown_cell():
    with pytest.raises(ValueError, match="ODDRE1"):
        paths.kind("ODDRE1")
