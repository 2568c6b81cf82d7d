"""The four designs of preset ``ecp5`` on an LFE5U-85F, speed grade 6: writes ``results/ecp5.json``.

Synthesised by Yosys, placed and routed by nextpnr, with several seeds; each seed takes ten minutes to an hour. ``lut``:
positions of LUTs taken, by logic, adders and distributed RAM; ``ebr``: block RAMs of 18 Kbit; ``multiplier``: of 18x18
bits: all without the shift registers that stand for pins. ``fmax``: by nextpnr's timing analysis, of the design with
these registers, whose paths count too; late nets are routed anew for the preset's clock while that has an end. With a
native nextpnr on the PATH it takes half the time, and clocks are faster. Details have resources block by block, and the
critical path of each seed by blocks.

What is finished is kept in the cache, and seeds that the output has aren't run again unless hardware, tools or flow
have changed: a bench that was stopped goes on, and more seeds can be added.
"""

from ..instruments.synthesis import bench, mistakes_in_a_line, parser

__all__ = ["main"]

COMMAND = "python -m adagp.evaluation.benches.ecp5"


def main() -> None:
    """Entry point of ``nox -s bench_ecp5``."""
    names = {
        name: lambda design, name=name: design["resources"][name] for name in ("lut", "ff", "ebr", "multiplier")
    } | {name: lambda design, name=name: design.get(name) for name in ("fmax_median_mhz", "fmax_best_mhz")}  # fmt: skip
    arguments = parser(COMMAND, __doc__, "ecp5.json", "1-5").parse_args()
    with mistakes_in_a_line():
        bench(COMMAND, arguments, "ecp5", "ecp5", names)


if __name__ == "__main__":
    main()
