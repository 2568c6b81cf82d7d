"""Clock gates in netlists of cells: how they get there, and the share of cycles for which each one is open.

Idle blocks have gates in the RTL. Yosys adds others, one for each group of a block's flip-flops with one enable. Where
a library has no cell for them there are none, and every clock pin toggles in every cycle.
"""

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING

from ...rtl.lib.clock_gate import CELL

if TYPE_CHECKING:
    from .activity import Activity
    from .gates import Gates
    from .liberty import Gate

__all__ = ["ENABLES", "FILE", "LEAST", "adding", "enables", "module", "open_shares"]

FILE, ENABLES = "gate.v", "enables.v"
LEAST = 4
"""Flip-flops that an added gate has at least; it is as large as one and a half of the multiplexers it replaces."""


def module(gate: "Gate") -> str:
    """Verilog of the RTL's gate, made of a library's."""
    test = "".join(f", .{pin}(1'b0)" for pin in gate.test)
    pins = f".{gate.clock}(clk), .{gate.enable}(open), .{gate.output}(o){test}"
    return f"module {CELL}(input clk, input open, output o);\n  {gate.name} gate({pins});\nendmodule\n"


def enables() -> str:
    """Verilog that makes flip-flops with an enable of those with a reset too, which clockgate and dfflegalize don't.

    Where the reset overrides the enable, the new enable is either.
    """
    found = []
    for reset, value, enable in product("PN", "01", "PN"):
        now, open_ = (f"{'!' * (sign == 'N')}{pin}" for sign, pin in ((reset, "R"), (enable, "E")))
        for kind, wanted in (("SDFFE", f"{open_} | {now}"), ("SDFFCE", open_)):
            found.append(
                f"module \\$_{kind}_P{reset}{value}{enable}_ (input C, input R, input E, input D, output Q);\n"
                f"  \\$_DFFE_PP_ _TECHMAP_REPLACE_ (.C(C), .E({wanted}), .D({now} ? 1'b{value} : D), .Q(Q));\n"
                "endmodule\n"
            )
    return "".join(found)


def adding(gate: "Gate") -> str:
    """Passes that put gates before flip-flops with enables; an enable that a reset overrides is one with it."""
    test = " ".join(f"-tie_lo {pin}" for pin in gate.test)
    return f"""\
techmap -map {ENABLES}
simplemap
opt_merge
opt_clean
clockgate -pos {gate.name} {gate.enable}:{gate.clock}:{gate.output} {test} -min_net_size {LEAST}
"""


def _driven(gates: "Gates") -> dict[int, list[int]]:
    """The flip-flops' outputs by the gated clock that they hang on."""
    found: dict[int, list[int]] = {}
    for kind, nets in gates.nets.items():
        of = gates.library.pins[kind]
        for pin in (pin for pin in nets if not of[pin].output and kind in gates.library.flip_flops):
            for each, clock in enumerate(nets[pin].tolist()):
                if clock in gates.clocks:
                    outputs = (int(nets[out][each]) for out in nets if of[out].output)
                    found.setdefault(clock, []).extend(outputs)
    return found


def open_shares(
    gates: "Gates", activity: "Activity", aliases: Mapping[int, list[tuple[str, int, int]]]
) -> dict[int, float]:
    """By gated clock: the share of cycles in which it ticks; 1 of a clock of which nothing is known.

    A clock with a name ticks as in the simulation. Another one ticks as often as the flip-flop it drives that is
    written most often, in the cycles of its own clock. It never ticks less often than one of them changes.
    """
    driven = _driven(gates)
    shares: dict[int, float] = {}
    for clock, source in gates.clocks.items():  # a gate comes after the one that it hangs on
        most = shares.get(source, 1.0)
        named = [rate / 2 for alias in aliases.get(clock, ()) if (rate := activity.rate(*alias)) is not None]
        stored = [alias for bit in driven.get(clock, ()) for alias in aliases.get(bit, ())]
        writes = [rate for alias in stored if (rate := activity.write_rate(*alias)) is not None]
        changes = [rate for alias in stored if (rate := activity.rate(*alias)) is not None]
        found = max([*(named[:1] or writes), *changes]) if named or writes else most
        shares[clock] = min(found, most)
    return shares
