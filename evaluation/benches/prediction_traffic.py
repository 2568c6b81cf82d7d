"""DRAM traffic that three options spare on MAX, estimated: goes on with ``results/prediction_traffic.json``.

``every``: the predictor learns in one of four batches with true gradients (``--predictor-every 4``). ``keep``: GP
batches leave momentum as it is (``--gp-momentum keep``). ``both``: the two together; ``both_8``, ``both_16``: with one
batch of so many. ``stream``: both, and predictions that don't cross the memory port (``--predictions stream``).
``built``: none of them. A batch of each phase is estimated as for ``results/figures_16_to_21.json``, on the same
design; for ``stream`` its predictor memory is larger.

``dram_energy_saving_*``: of a mean batch of the paper's 90 epochs, over the baseline; ``speedup_*``: likewise;
``ideal_saving_*``: if a GP batch moved the bytes of a forward pass alone. Nothing here counts operators on the host.
"""

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path

from ...gen.provenance import SWITCHED, commit, provenance
from ...host.compiler.memory_plan import PlanError
from ...host.console import at_least_one, writable
from ..instruments.estimates import Batch, ideal_saving
from ..instruments.paper_batches import DATA, KEPT, NETWORKS, STREAMED, Case, saving
from ..instruments.results import FOLDER, merge_results
from ..instruments.single_command import bars
from ..instruments.variants import shares

__all__ = ["BATCH", "EVERY", "OPTIONS", "figures", "main", "part_of"]

COMMAND = "python -m adagp.evaluation.benches.prediction_traffic"
PRESET, SEED, BATCH, EVERY = "paper", 1, 32, 4
MODELS = ("vgg13", "resnet50")
CNNS = tuple(name for name, sets in NETWORKS.items() if "cifar10" in sets)
OPTIONS = {
    "built": (1, "gp"), "every": (EVERY, "gp"), "keep": (1, KEPT), "both": (EVERY, KEPT),
    **{f"both_{every}": (every, KEPT) for every in (8, 16)}, "stream": (EVERY, STREAMED),
}  # fmt: skip
"""By name: one of how many batches teaches the predictor, and GP's batches."""


def part_of(case: Case, batch: int) -> str:
    """The name of a case's figures: network and data, and the batch if it isn't BATCH."""
    return f"{case.model}_{case.data}" + f"_{batch}" * (batch != BATCH)


def figures(part: str, baseline: Mapping[str, Batch], design: Mapping[str, Batch]) -> dict[str, float]:
    """Savings and speed-ups of a part by option, and the ideal."""
    found = {f"ideal_saving_{part}": round(ideal_saving(dict(baseline)), 4)}
    for option, (every, gp) in OPTIONS.items():
        parts = shares(every)
        batches = {name: design[gp if name == "gp" else name] for name in parts}
        energy = sum(share * batches[name].millijoules for name, share in parts.items())
        cycles = sum(share * batches[name].cycles for name, share in parts.items())
        found[f"dram_energy_saving_{part}_{option}"] = round(1 - energy / baseline["bp"].millijoules, 4)
        found[f"speedup_{part}_{option}"] = round(baseline["bp"].cycles / cycles, 4)
    return found


def _kept(batches: Mapping[str, Batch]) -> dict[str, dict[str, int]]:
    names = ("cycles", "read_bytes", "write_bytes")
    return {phase: {name: batch.counters[name] for name in names} for phase, batch in batches.items()}


def main(arguments: Iterable[str] | None = None) -> None:
    """Entry point of ``nox -s bench_prediction_traffic``."""
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )  # fmt: skip
    images = [name for name, data in DATA.items() if name in ("cifar10", "imagenet")]
    parser.add_argument("--models", nargs="+", choices=CNNS, default=MODELS, metavar="NAME",
                        help=f"of {', '.join(CNNS)} (default: {', '.join(MODELS)})")  # fmt: skip
    parser.add_argument("--data", nargs="+", choices=images, default=images, help="(default: all)")
    parser.add_argument("--batch", type=at_least_one, default=BATCH, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--json", type=writable, default=FOLDER / "prediction_traffic.json", metavar="PATH")
    given = parser.parse_args(None if arguments is None else list(arguments))
    cases = [Case(model, data, "free") for data in given.data for model in given.models]
    with bars() as progress:
        for case in progress.track(cases, description="networks"):
            source, part = commit(), part_of(case, given.batch)
            try:
                baseline, design = saving(case, given.batch, PRESET, SEED, EVERY)
            except PlanError as error:
                progress.console.print(f"{part}: {error}")
                continue
            found = figures(part, baseline, design)
            rows = {"preset": PRESET, "batch": given.batch, "baseline": _kept(baseline), "max": _kept(design)}
            saved = ", ".join(f"{name} {100 * found[f'dram_energy_saving_{part}_{name}']:.1f} %" for name in OPTIONS)
            progress.console.print(f"{part}: {saved}")
            origin = provenance(COMMAND, None, SEED, source, SWITCHED)
            merge_results(Path(given.json), part, found, rows, origin)


if __name__ == "__main__":
    main()
