"""Xilinx' 7 series, the paper's technology: synthesis by Yosys; Vivado places and routes, see :mod:`.vivado`.

An Artix-7 is placed and routed by an open nextpnr too, as the target ARTIX7. Its netlists have no LUTs as memories or
shift registers: with them its router finds no end.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from .nextpnr import CONSTRAINTS, Router
from .target import Part, Target

__all__ = ["ARTIX7", "ROUTER", "XILINX", "device", "estimated_luts"]

_LUTRAM = {
    "RAM32M": 4, "RAM64M": 4, "RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1D": 4, "RAM256X1S": 4, "RAM128X1S": 2,
    "RAM64X1S": 1, "RAM32X1S": 1,
}  # fmt: skip
_SHIFT = {"SRL16E": 1, "SRLC16E": 1, "SRLC32E": 1}


def device(
    name: str, lut: int, ramb36: int, dsp48: int, package: str, speed: str, pins: Mapping[str, str] | None = None
) -> Part:
    """One of the 7 series, which have two flip-flops for a LUT, and take two RAMB18 where one RAMB36 has its place."""
    has = {"lut": lut, "ff": 2 * lut, "ramb36": ramb36, "bram18": 2 * ramb36, "dsp48": dsp48}
    return Part(name, has, (package,), (speed,), pins=pins)


XILINX = Target(
    name="xilinx",
    title="Xilinx 7 series",
    family="xilinx",
    # Names for cells, by which they are told apart by block, as the other targets' passes give them too.
    passes=(
        "synth_xilinx -family xc7 -flatten -noiopad -noclkbuf -top adagp\nautoname\ntee -o stat.txt stat -tech xilinx"
    ),
    counted={
        # LUTs of any size count one: Vivado packs two small ones into one where it can, so it reports fewer.
        "lut": {"LUT[1-6]": 1, "INV": 1, **_LUTRAM, **_SHIFT},
        "lutram": {**_LUTRAM, **_SHIFT}, "carry4": {"CARRY4": 1}, "ff": {"FD[RSCP]E": 1, "FD[RSCP]E_1": 1},
        "ramb36": {"RAMB36E1": 1}, "ramb18": {"RAMB18E1": 1},
        "bram18": {"RAMB36E1": 2, "RAMB18E1": 1},  # halves of places for block RAM
        "dsp48": {"DSP48E1": 1},
        "muxf": {"MUXF[78]": 1},  # behind pairs of LUTs, in no one's way
    },
    parts={
        "xc7vx690t": device("XC7VX690T", 433200, 1470, 3600, "ffg1761", "-2"),
        "xc7vx485t": device("XC7VX485T", 303600, 1030, 2800, "ffg1761", "-2"),
        "xc7v2000t": device("XC7V2000T", 1221600, 1292, 2160, "flg1925", "-2"),
    },
)  # fmt: skip

ARTIX7 = replace(
    XILINX,
    name="artix7",
    title="Xilinx Artix-7, placed and routed by open tools",
    note="Clocks of Artix-7 are an open estimate: nextpnr knows no speed grade and times no path through a DSP48E1.",
    passes="synth_xilinx -family xc7 -flatten -nolutram -nosrl -top adagp\nautoname\ntee -o stat.txt stat -tech xilinx",
    counted={**XILINX.counted, "pad": {"IBUF": 1, "OBUF": 1, "BUFG": 1}},
    parts={
        # The clock's pads are those of the Arty A7's and of the Nexys Video's clock.
        "xc7a100t": device("XC7A100T", 63400, 135, 240, "csg324", "-1",
                           {"clk": "E3", "rst": "D9", "si": "A8", "so": "H5"}),
        "xc7a200t": device("XC7A200T", 134600, 365, 740, "sbg484", "-1",
                           {"clk": "R4", "rst": "G4", "si": "E22", "so": "T14"}),
    },
    harness=True,
)  # fmt: skip


def _options(key, package, speed):
    # HeAP, the usual placer, finds no place that is legal for all cells.
    return ("--device", f"{key}{package}{speed}", "--placer", "static", "-o", f"xdc={CONSTRAINTS}")


def _constraints(pins):
    lines = (
        f"set_property LOC {place} [get_ports {port}]\nset_property IOSTANDARD LVCMOS33 [get_ports {port}]\n"
        for port, place in pins.items()
    )  # fmt: skip
    return "".join(lines)


ROUTER = Router(
    "nextpnr-himbaechel-xilinx", "", "", _options, constraints=_constraints,
    source="Debian has it from version 14 on (apt install nextpnr-himbaechel-xilinx)",
)  # fmt: skip

_ESTIMATE = re.compile(r"Estimated number of LCs:\s+(\d+)")


def estimated_luts(folder: Path, cells: Mapping[str, int]) -> int:
    """LUTs left when small ones have been paired: of the netlist in ``folder``, which has ``cells`` by type.

    Yosys' estimate takes LUTs of three inputs and more for one each and finds room for smaller ones beside them; it
    leaves out distributed RAM, shift registers and inverters, which are added here, as many as :data:`XILINX` counts.
    """
    found = _ESTIMATE.search((folder / "stat.txt").read_text())
    assert found is not None
    return int(found[1]) + XILINX.resources(cells)["lutram"] + cells.get("INV", 0)
