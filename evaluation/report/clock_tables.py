"""Clocks and critical paths of placed designs, as tables of ``docs/implementation.md``."""

from collections.abc import Mapping

from .added_blocks import plain
from .reference import table

__all__ = ["LEGEND", "clock", "targets"]

NOT_RECORDED = "not recorded"
ARRAY = "core.compute.array"
BLOCKS = 6
"""Number of blocks that are shown of those with late data."""
LEGEND = f"""A seed without a route counts as 0 in the median, and as one whose critical path isn't in the array. `top`
is the logic between the blocks. `(harness)` is the shift registers that stand for pins; their paths count too. *Late*
counts, for the best seed, inputs of registers and memories, enables and resets too, that data reach later than the
target's period after the clock. The time that they need before the next clock isn't included. The {BLOCKS} blocks with
the most late inputs are shown."""
"""The meaning of the tables."""


def targets(designs: Mapping[str, Mapping], target_mhz: float, n_pes: int) -> str:
    """Targets and results: the median clock, critical paths within the array, and MACs at most for the logic taken."""
    rows = []
    for variant, design in designs.items():
        paths = design["critical_paths"].values()
        inside = sum(bool(path) and all(_name(step["block"]).startswith(ARRAY) for step in path) for path in paths)
        tried = len(paths) + len(design.get("unrouted", ()))
        median = design["fmax_median_mhz"]
        macs = n_pes * median / design["resources"]["lut"]
        rows.append((
            variant, f"{'yes' if median >= target_mhz else 'no'}: {median:,.1f}",
            f"{'yes' if inside == tried else 'no'}: with {inside} of {tried} seeds",
            f"{macs:.3f}",
        ))  # fmt: skip
    head = "reached?", f"a median of {target_mhz:,g} MHz", "the critical path lies in the array"
    return table((*head, "GMAC/s a thousand LUTs, with the main array's PEs busy"), rows)


def clock(designs: Mapping[str, Mapping], target_mhz: float) -> str:
    """Frequencies and critical paths by seed, and of the best where data are later than ``target_mhz`` allows.

    ``target_mhz`` is the preset's clock; what place and route was asked for is the design's ``freq_mhz``.
    """
    speeds, paths = [], []
    for variant, design in designs.items():
        by_seed = "; ".join(f"{seed}: {mhz:,.1f}" for seed, mhz in design["fmax_mhz"].items())
        by_seed += "".join(f"; {seed}: no route" for seed in design.get("unrouted", ()))
        by_seed += "".join(f"; {seed}: tool failed" for seed in design.get("failed", ()))
        median, best = (f"{design[f'fmax_{name}_mhz']:,.1f}" for name in ("median", "best"))
        device = (design.get(name, NOT_RECORDED) for name in ("part", "speed"))
        asked = f"{design['freq_mhz']:,.4g}" if "freq_mhz" in design else NOT_RECORDED
        speeds.append((variant, *device, f"{target_mhz:,g}", asked, median, best, by_seed))
        for seed, path in design["critical_paths"].items():
            paths.append((variant, seed, "; ".join(map(_step, path))))
    head = (
        "design", "part", "speed grade", "target, MHz", "asked for, MHz", "median, MHz", "best, MHz", "by seed, MHz",
    )  # fmt: skip
    path_head = ("design", "seed", "critical path: each block's cells, logic + routing in ns")
    late_head = ("design", "seed", "late", "by block: late inputs, all its inputs, the latest in ns")
    tables = table(head, speeds), table(path_head, paths), table(late_head, [_late(*item) for item in designs.items()])
    return "\n\n".join(tables)


def _late(variant, design):
    """Inputs of registers that data reach later than the target's period, and the blocks with the most of them."""
    blocks = design["late"]
    most = "; ".join(
        f"`{_name(block)}` {row['late']:,} of {row['endpoints']:,}, {row['worst_ns']:.1f}"
        for block, row in list(blocks.items())[:BLOCKS]
    )  # fmt: skip
    return variant, design["best_seed"], f"{sum(row['late'] for row in blocks.values()):,}", most or "none"


def _step(step):
    """A critical path's cells and delays in a block."""
    return f"`{_name(step['block'])}` {step['cells']}, {step['logic_ns']:.2f} + {step['routing_ns']:.2f}"


def _name(block):
    (name,) = plain({block: {}})
    return name or "top"
