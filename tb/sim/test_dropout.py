"""Dropout in the whole machine: its random commands, and a refusal of golden model and RTL."""

import pytest
from adagp.spec.commands import Command, Opcode
from adagp.spec.errors import ErrorCode
from random_programs import DESIGNS, drawn_commands, is_refused

pytestmark = pytest.mark.timeout(900)  # Verilog and a simulator may have to be made first


def test_what_the_programs_hold():
    """Dropout with all uses of C and ReLU, in several tiles of images, rows and channels, in windows too."""
    seen, commands = set(), 0
    for _, c in drawn_commands("dropout"):
        if c.momentum:
            commands += 1
            seen |= {("mode", c.c_mode), ("relu", c.relu), ("window", c.r * c.s > 1), ("half", c.momentum == 1 << 15)}
            tiles = (("n", c.nb, c.n), ("y", c.yb, c.oh), ("c", c.cb, c.c))
            seen |= {("tiles", name) for name, tile, whole in tiles if tile < whole}
    assert commands > 50 and {("mode", mode) for mode in range(5)} <= seen
    assert {("tiles", name) for name in "nyc"} | {
        (name, each) for name in ("window", "half") for each in (False, True)
    } <= seen


@pytest.mark.parametrize("variant", ["baseline", "max"])
def test_refusal(variant):
    """Tiles whose pixels don't follow each other are BAD_TILE, and nothing is written."""
    ones = dict.fromkeys(("c", "w", "q", "r", "s", "stride", "ow", "yb", "cb", "qb"), 1)
    bad = Command(Opcode.AVGPOOL, {
        **ones, **dict.fromkeys(("n", "h", "oh", "nb"), 2), "phase_mask": 15, "out_addr": 4096, "momentum": 1 << 15,
    })  # fmt: skip
    is_refused(DESIGNS[variant], bad, ErrorCode.BAD_TILE)
