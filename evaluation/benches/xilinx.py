"""The four designs of preset ``paper`` on Xilinx 7 series, and the paper's Table 4a: writes ``results/xilinx.json``.

Synthesised by Yosys; not placed, which takes Vivado (``adagp synth --target xilinx --vivado FOLDER``). ``lut``: LUTs of
any size, each one, and those that are distributed RAM, shift registers or inverters; ``lut_paired``: Yosys' estimate of
what is left of the former when small ones have been paired, and the latter; ``ff``; ``ramb36`` and ``ramb18``: block
RAMs; ``dsp48``: DSP48E1. Details have them block by block.

What is finished is kept in the cache: a bench that was stopped goes on.
"""

from ...algorithm.paper_numbers import FPGA_RESOURCES
from ..instruments.synthesis import bench, mistakes_in_a_line, parser, resources

__all__ = ["main"]

COMMAND = "python -m adagp.evaluation.benches.xilinx"


def main() -> None:
    """Entry point of ``nox -s bench_xilinx``."""
    names = {
        **resources("lut", "ff", "ramb36", "ramb18", "dsp48"), "lut_paired": lambda design: design["luts_estimated"],
    }  # fmt: skip
    arguments = parser(COMMAND, __doc__, "xilinx.json").parse_args()
    with mistakes_in_a_line():
        bench(COMMAND, arguments, "xilinx", "paper", names, {"paper_table_4a": FPGA_RESOURCES})


if __name__ == "__main__":
    main()
