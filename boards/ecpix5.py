"""LambdaConcept ECPIX-5 with an LFE5UM5G-85F and 512 MiB of DDR3 on 16 data lines."""

from ..synth.ecp5 import ECP5
from .board import Board
from .litedram_core import DramPhy

__all__ = ["BOARD"]


def _platform():
    from amaranth_boards.ecpix5 import ECPIX585Platform

    return ECPIX585Platform()


BOARD = Board(
    name="ecpix5",
    title="LambdaConcept ECPIX-5 85F",
    platform=_platform,
    input_hz=100_000_000,
    clocks=(40_000_000, 100_000_000),
    memory=DramPhy(
        phy="ECP5DDRPHY", part="MT41K256M16", device="LFE5UM5G-85F-8BG554I", lanes=2, rate=2,
        clocks=(("init_clk_freq", 25_000_000),),
    ),
    lights=(("rgb_led", 0, "g"), ("rgb_led", 1, "g"), ("rgb_led", 2, "b")),
    pairs=False,
    target=ECP5,
    part=ECP5.part("um5g-85k"),
    flow="ecp5",
    place=("--um5g-85k", "--package", "CABGA554", "--speed", "8", "--router", "router2"),
    # A button that isn't pressed must not hold the board in reset where nothing else pulls it up.
    overrides=(("add_preferences", 'IOBUF PORT "rst_0__io" IO_TYPE=LVCMOS33 PULLMODE=UP;'),),
)  # fmt: skip
