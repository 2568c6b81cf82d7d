"""MAX beside a baseline of the same area or power: the PEs it could have, and its section of docs/implementation.md."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...algorithm import paper_numbers as paper
from ...spec.presets import preset
from .added_blocks import plain
from .cells import LIBRARIES
from .comparison import NOT_MEASURED, Results, number
from .reference import table

__all__ = ["COLUMN_BLOCKS", "MEASURED", "EqualArea", "equal_area", "equal_area_section", "equal_power"]

COLUMN_BLOCKS = ("core.compute.array", "core.compute.accumulator", "core.drain.epilogue")
"""Blocks that a PE's logic is counted in: the array, and the blocks at the end of each of its columns."""


@dataclass(frozen=True)
class EqualArea:
    """MAX's additions and the cost of one PE of the baseline, by resource; the baseline has ``n_pes`` PEs."""

    added: Mapping[str, float]
    a_pe: Mapping[str, float]
    n_pes: int

    def more(self, resources: Sequence[str]) -> int:
        """PEs that MAX's additions of ``resources`` pay for: as many as the scarcest one allows."""
        return min(int(max(self.added[name], 0) / self.a_pe[name]) for name in resources)

    def speedup(self, more: int) -> float:
        """Speed-up of an array with ``more`` PEs, if all of them are always busy."""
        return 1 + more / self.n_pes


def equal_area(designs: Mapping[str, Mapping], logic: str, multiplier: str | None, n_pes: int) -> EqualArea:
    """From details of baseline and MAX, as :func:`adagp.synth.flow.run` has them.

    ``logic`` and ``multiplier`` name the resources. Multipliers are counted in the array alone; None means that they
    are logic too.
    """
    base, largest = designs["baseline"], designs["max"]
    blocks = plain(base["blocks"])
    a_pe = {logic: sum(blocks[block][logic] for block in COLUMN_BLOCKS) / n_pes}
    if multiplier:
        a_pe[multiplier] = blocks["core.compute.array"][multiplier] / n_pes
    return EqualArea({name: largest["resources"][name] - base["resources"][name] for name in a_pe}, a_pe, n_pes)


def equal_power(designs: Mapping[str, Mapping], n_pes: int) -> EqualArea | None:
    """Watts that MAX adds and that a PE takes in a batch with backpropagation; None unless they are known by block."""
    drawn = {variant: designs[variant].get("power_bp_w", {}).get("blocks") for variant in ("baseline", "max")}
    if not all(drawn.values()):
        return None
    blocks = plain({block: {"power": power} for block, power in drawn["baseline"].items()})
    a_pe = sum(blocks[block]["power"] for block in COLUMN_BLOCKS) / n_pes
    return EqualArea({"power": drawn["max"][""] - drawn["baseline"][""]}, {"power": a_pe}, n_pes)


MEASURED = {
    "xilinx": ("7 series", "lut", "dsp48"), "ecp5": ("ECP5", "lut", "multiplier"),
    **{name: (library, "cell_area", None) for name, library in LIBRARIES.items()},
}  # fmt: skip
"""By results: the title, and the names of logic and multipliers."""
CYCLES = {"paper": "variants_vgg13", "ecp5": "variants_digits"}
"""Results with the cycles of a preset."""
ROWS = (
    "PEs of the baseline", "logic a PE", "multipliers a PE", "logic that MAX adds", "multipliers that MAX adds",
    "more PEs for this logic", "more PEs for this logic and multipliers", "speed-up at best, for this logic",
    "speed-up at best, for this logic and multipliers", "power a PE, mW", "power that MAX adds, mW",
    "more PEs for this power", "speed-up at best, for this power", "speed-up of MAX, in measured cycles",
    "speed-up of MAX, each at its median clock",
)  # fmt: skip


def _faster(ours: float, most: float) -> str:
    return (
        f"MAX ({ours:.2f} against {most:.2f} at best)"
        if ours > most
        else (f"the larger baseline, if it reaches its best ({most:.2f} against {ours:.2f})")
    )


def _timed(placed: Mapping, cycles: Mapping | None, designs: Mapping[str, Mapping]) -> str:
    """The speed-up with clocks; cycles and clocks of two hardwares have no quotient."""
    clocks = [designs[variant].get("fmax_median_mhz") for variant in ("max", "baseline")]
    if cycles is None or not all(clocks):
        return NOT_MEASURED
    if placed["provenance"]["hardware"] != cycles["provenance"]["hardware"]:
        return "measured on different hardware"
    gain: float = cycles["figures"]["speedup_max"] * clocks[0] / clocks[1]
    return f"{gain:,.2f}"


def _column(results: Results, name: str) -> tuple[dict[str, str], str]:
    """Cells by row, and the conclusion in a sentence."""
    title, logic, multiplier = MEASURED[name]
    designs = results.designs(name)
    found = results.read(name)
    assert found
    config = preset(found["provenance"]["config"])
    cycles = results.read(CYCLES[config.name]) if config.name in CYCLES else None
    gain = cycles["figures"]["speedup_max"] if cycles else None
    area: EqualArea = equal_area(designs, logic, multiplier, config.n_pes)
    more = {"logic": area.more([logic])}
    cells = {
        "PEs of the baseline": number(area.n_pes), "logic a PE": f"{area.a_pe[logic]:,.1f}",
        "logic that MAX adds": number(area.added[logic], "+"), "more PEs for this logic": number(more["logic"]),
        "speed-up at best, for this logic": f"{area.speedup(more['logic']):,.2f}",
        "speed-up of MAX, in measured cycles": f"{gain:,.2f}" if gain else NOT_MEASURED,
    }  # fmt: skip
    if multiplier:
        more["logic and multipliers"] = area.more([logic, multiplier])
        cells |= {
            "multipliers a PE": f"{area.a_pe[multiplier]:,.2f}",
            "multipliers that MAX adds": number(area.added[multiplier], "+"),
            "more PEs for this logic and multipliers": number(more["logic and multipliers"]),
            "speed-up at best, for this logic and multipliers": f"{area.speedup(more['logic and multipliers']):,.2f}",
            "speed-up of MAX, each at its median clock": _timed(found, cycles, designs),
        }
    if powers := equal_power(designs, config.n_pes):
        more["power"] = powers.more(["power"])
        cells |= {
            "power a PE, mW": f"{1e3 * powers.a_pe['power']:.3g}",
            "power that MAX adds, mW": f"{1e3 * powers.added['power']:+.3g}",
            "more PEs for this power": number(more["power"]),
            "speed-up at best, for this power": f"{powers.speedup(more['power']):,.2f}",
        }
    if not gain:
        return cells, f"{title}, `{config.name}`: MAX's speed-up isn't measured with this preset"
    said = "; ".join(f"for its {what}, {_faster(gain, area.speedup(n))}" for what, n in more.items())
    return cells, f"{title}, `{config.name}`: {said}"


def equal_area_section(results: Results) -> str:
    """The section, with a column for each device on which baseline and MAX are measured."""
    there = [name for name in MEASURED if "max" in results.designs(name)]
    columns, sentences = {}, []
    for name in there:
        found = results.read(name)
        assert found
        cells, sentence = _column(results, name)
        columns[f"{MEASURED[name][0]}, `{found['provenance']['config']}`"] = cells
        sentences.append(sentence)
    text = ""
    if columns:
        known = [row for row in ROWS if any(row in cells for cells in columns.values())]
        rows = [(row, *(cells.get(row, "") for cells in columns.values())) for row in known]
        text = (
            f"\n{table(('', *columns), rows)}\n\nWhich is faster, MAX or the larger baseline? {'. '.join(sentences)}.\n"
        )
    others = [name for name in LIBRARIES if name not in there and name != "asic"]
    shown = [name for name in ("xilinx", "variants_vgg13", "ecp5", "variants_digits", *LIBRARIES) if name not in others]
    least, most = (100 * of(paper.EQUAL_AREA_SPEEDUP.values()) for of in (min, max))
    return f"""## The baseline with MAX's area

{results.origins(*shown)}

This section asks how fast the baseline would be with more PEs in the area that MAX adds. One more PE is taken to cost
two shares: the logic (LUTs, or square micrometres of cells) of the baseline's array and of the blocks at the end of
its columns ({", ".join(f"`{b}`" for b in COLUMN_BLOCKS)}), divided by its PEs, and the array's multipliers, divided by
its PEs.

Some assumptions favour the baseline, others MAX. The blocks that fetch operands and move results are taken to serve a
larger array as they are, and memories to be large enough. The baseline gets nothing for the flip-flops and memory that
MAX adds. Multipliers are counted as if there were only those that MAX adds, though most of an FPGA's are free, and LUTs
can multiply: the row with them is the kindest to MAX. The larger array's speed-up is at best its ratio of PEs, because
layers don't always fill it, and it may wait for memory.

In standard cells power is measured by block too, in a batch with backpropagation at the preset's clock. A PE's is that
of the same blocks. Unlike area it includes flip-flops and memories, on both sides. In a batch with predicted gradients
MAX's power is another one.

MAX's speed-up is measured, by the paper's schedule: VGG13's with `paper`, the digits CNN's with `ecp5`. It is in
cycles, so it holds in time only at equal clocks, which the paper assumes. The last row has the speed-up at each
design's own clock, where clocks are measured.
{text}
The paper gives its baseline {100 * paper.EQUAL_AREA_PES:.0f} % more PEs for MAX's area in standard cells, and a mean
speed-up of {least:.1f} to {most:.1f} %. For MAX's power on the FPGA it gives its baseline
{100 * paper.EQUAL_POWER_PES:.0f} % more PEs; our power is that of standard cells."""
