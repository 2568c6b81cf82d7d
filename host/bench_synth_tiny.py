"""Preset ``tiny``, synthesised for an ECP5: writes ``results/synth_tiny.json``.

Some minutes.
"""

from .synthesis_bench import bench, parser

__all__ = ["NAMES", "VARIANTS", "main"]

COMMAND = "python -m adagp.host.bench_synth_tiny"
VARIANTS = ("baseline", "max")
NAMES = ("lut", "ff", "ebr", "multiplier")


def main() -> None:
    """Entry point of ``nox -s bench_synth_tiny``."""
    options = parser(COMMAND, __doc__, "synth_tiny.json")
    options.set_defaults(variants=",".join(VARIANTS))
    names = {name: lambda design, name=name: design["resources"][name] for name in NAMES}
    bench(COMMAND, options.parse_args(), "ecp5", "tiny", names)


if __name__ == "__main__":
    main()
