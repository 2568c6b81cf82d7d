"""Move flip-flops after an ECP5's block memories into the blocks' own output registers.

A DP16KD has an output register at each of its two ports. Yosys leaves them unused (REGMODE is NOREG) and makes a
memory's output register of flip-flops. A word then arrives 5.83 ns after the clock, and still has the wire to its
flip-flop before it. From the block's own register it arrives after 0.96 ns (nextpnr's figures for speed grade 6). Up to
36 flip-flops of a block are saved.

The block's register has the port's clock and starts as 0. OCE alone enables it; the port's CE doesn't matter. So it
behaves as a flip-flop without reset. A block that reads 36 bits uses the outputs of both ports, with the clock and the
enables of port B, while port A writes.
"""

from collections.abc import Iterable, Mapping

from .yosys import TOP

__all__ = ["use_output_registers"]

_BLOCK, _REGISTER = "DP16KD", "TRELLIS_FF"
_PLAIN = {"CLKMUX": "CLK", "LSRMUX": "LSR", "LSRMODE": "LSR", "REGSET": "RESET"}
"""Parameters of a flip-flop that the block's register can stand for; these are the defaults too."""
_WIDE = 36


def _bit(cell, pin):
    """The net at a pin, or a constant's name; None where there is nothing."""
    return next(iter(cell["connections"].get(pin, ())), None)


def _outputs(block):
    """Nets of a block's connected outputs, by pin."""
    nets = {pin: _bit(block, pin) for pin in block["connections"] if pin.startswith("DO")}
    return {pin: net for pin, net in nets.items() if isinstance(net, int)}


def _kept(module) -> set[int]:
    """Nets that must stay in the netlist."""
    kept = [net for net in module["netnames"].values() if _keeps(net)]
    return {bit for net in kept for bit in net["bits"]}


def _keeps(thing):
    return int(thing.get("attributes", {}).get("keep", "0"), 2) != 0


def _readers(module, nets: Iterable[int]) -> Mapping[int, list[tuple[str, str]]]:
    """Readers of ``nets``, as (cell, pin). A port of the module and an attribute that keeps a net count as readers."""
    readers: dict[int, list[tuple[str, str]]] = {net: [] for net in nets}
    for name, cell in module["cells"].items():
        directions = cell["port_directions"]
        for pin, bits in cell["connections"].items():
            for bit in bits:
                if bit in readers and directions[pin] != "output":
                    readers[bit].append((name, pin))
    for bit in (*_kept(module), *(bit for port in module["ports"].values() for bit in port["bits"])):
        if bit in readers:
            readers[bit].append(("", ""))
    return readers


def _enable(register):
    """Net of a flip-flop's enable, "1" if it has none; None for an enable of another form."""
    mux = register["parameters"].get("CEMUX", "").strip()  # Yosys puts a space after a string of digits
    enable = _bit(register, "CE") if mux == "CE" else mux
    return enable if isinstance(enable, int) or enable == "1" else None


def _plain(register, block, side):
    """Tell whether a flip-flop, apart from its enable, behaves as the register of a block's port."""
    parameters = register["parameters"]
    return (
        all(parameters.get(name, value) == value for name, value in _PLAIN.items())
        and _bit(register, "LSR") in (None, "0")
        and _bit(register, "M") is None
        and parameters.get("GSR") == block["parameters"].get("GSR")
        and _bit(register, "CLK") == _bit(block, f"CLK{side}")
        and not _keeps(register)
    )


def _sides(block, pins):
    """Ports whose registers and enables belong to output ``pins``."""
    wide = int(block["parameters"]["DATA_WIDTH_B"], 2) == _WIDE
    return "AB" if wide else sorted({pin[len("DO")] for pin in pins})


def _usable(block, side):
    """Tell whether a port's register is free."""
    parameters = block["parameters"]
    return (
        parameters.get(f"REGMODE_{side}") == "NOREG"
        and parameters.get(f"CLK{side}MUX", f"CLK{side}") == f"CLK{side}"
        and _bit(block, f"RST{side}") == "0"
    )


def _registers(block, cells, readers, kept) -> dict[str, str]:
    """Names of the flip-flops that a block's outputs drive, by pin; empty unless all of them can move into it."""
    used = {pin: net for pin, net in _outputs(block).items() if readers[net]}
    found = {}
    for pin, net in used.items():
        (name, at), *others = readers[net]
        if others or at != "DI" or cells[name]["type"] != _REGISTER or _bit(cells[name], "Q") in kept:
            return {}
        found[pin] = name
    registers, sides = [cells[name] for name in found.values()], _sides(block, used)
    enables = {_enable(register) for register in registers}
    if len(enables) != 1 or None in enables or _keeps(block):
        return {}
    fit = all(_usable(block, side) and _plain(register, block, side) for side in sides for register in registers)
    return found if fit else {}


def _move(block, found, cells):
    """Move the registers in ``found`` into the block."""
    for side in _sides(block, found):
        block["parameters"][f"REGMODE_{side}"] = "OUTREG"
        block["connections"][f"OCE{side}"] = [_enable(cells[next(iter(found.values()))])]
        block["port_directions"][f"OCE{side}"] = "input"
    for pin, name in found.items():
        block["connections"][pin] = cells.pop(name)["connections"]["Q"]


def use_output_registers(netlist: dict) -> dict:
    """Change Yosys' netlist of an ECP5: move registers after block memories into the blocks.

    A block changes only if each of its outputs that is read goes to one register and nothing else. The registers must
    have the port's clock, one enable or none, no reset, and start as 0. Nets and cells to be kept don't change.
    """
    module = netlist["modules"][TOP]
    cells = module["cells"]
    blocks = [cell for cell in cells.values() if cell["type"] == _BLOCK]
    readers = _readers(module, [net for block in blocks for net in _outputs(block).values()])
    kept = _kept(module)
    for block in blocks:
        if found := _registers(block, cells, readers, kept):
            _move(block, found, cells)
    return netlist
