"""Digilent Arty A7-100T with 256 MiB of DDR3 on 16 data lines. A Vivado project."""

from ..synth.xilinx import ARTIX7, XILINX
from .board import Board
from .litedram_core import DramPhy

__all__ = ["BOARD"]


def _platform():
    from amaranth_boards.arty_a7 import ArtyA7_100Platform

    class Platform(ArtyA7_100Platform):
        """With the part that is on the board; the package names the one of the A7-35T."""

        device, speed = "xc7a100t", "1"

    return Platform()


BOARD = Board(
    name="arty_a7",
    title="Digilent Arty A7-100T",
    platform=_platform,
    input_hz=100_000_000,
    clocks=(80_000_000, 100_000_000),  # the memory's DLL doesn't lock below 300 MHz; 800 MT/s is what LiteX runs
    memory=DramPhy(
        phy="A7DDRPHY", part="MT41K128M16", device="xc7a100tcsg324-1", lanes=2, rate=4,
        clocks=(("iodelay_clk_freq", 200_000_000),), more=(("speedgrade", -1), ("cmd_latency", 0)),
    ),
    lights=(("led", 0, None), ("led", 1, None), ("led", 2, None)),
    pairs=True,
    target=XILINX,
    part=ARTIX7.part("xc7a100t"),
    flow="vivado",
)  # fmt: skip
