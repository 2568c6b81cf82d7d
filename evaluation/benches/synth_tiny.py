"""Preset ``tiny``, synthesised for an ECP5: writes ``results/synth_tiny.json``.

Some minutes.
"""

from ..instruments.synthesis import bench, mistakes_in_a_line, parser, resources

__all__ = ["NAMES", "VARIANTS", "main"]

COMMAND = "python -m adagp.evaluation.benches.synth_tiny"
VARIANTS = ("baseline", "max")
NAMES = ("lut", "ff", "ebr", "multiplier")


def main() -> None:
    """Entry point of ``nox -s bench_synth_tiny``."""
    options = parser(COMMAND, __doc__, "synth_tiny.json")
    options.set_defaults(variants=",".join(VARIANTS))
    names = resources(*NAMES)
    arguments = options.parse_args()
    with mistakes_in_a_line():
        bench(COMMAND, arguments, "ecp5", "tiny", names)


if __name__ == "__main__":
    main()
