"""DRAM energy that updates which wait for true gradients would save, by count: ``results/deferred_traffic.json``.

No machine defers updates, and no RTL or program for it exists: this counts bytes of ``results/prediction_traffic.json``
anew. In a run of GP batches the predictor stays as it is. So a layer's predicted gradients are the hidden values of its
filters times one matrix, and the update may wait for the next BP batch with these values alone. That batch's UPDATE
reads and writes the weights anyway. It takes the product as a second gradient, streamed past memory.

A GP batch is then the streamed one with kept momentum, without what its UPDATE reads and writes of the weights
themselves: 4 bytes each way, which are an operand's two bytes and two more. Their number follows from what the streamed
batch writes less than the spilled one, two bytes of each prediction. The batch writes its hidden values and reads them
once as today; the reading belongs to the BP batch, which a mean batch doesn't show. Biases' bytes stay too, and so do
those of commands.

``dram_energy_saving_*_stream``: as in that file. ``*_deferred``: the same with updates deferred, ``*_deferred_taught``
with a predictor that learns from every batch with true gradients.
"""

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from ...gen.provenance import commit, provenance
from ...host.console import writable
from ..instruments.estimates import Batch
from ..instruments.paper_batches import KEPT, STREAMED
from ..instruments.results import FOLDER, merge_results
from ..instruments.variants import shares
from .prediction_traffic import EVERY, SEED

__all__ = ["OPTIONS", "deferred", "figures", "main", "n_weights"]

COMMAND = "python -m adagp.evaluation.benches.deferred_traffic"
DEFERRED = "gp, deferred"
"""Name, among phases, of GP batches that leave weights alone."""
PREDICTION_BYTES, WEIGHT_BYTES = 2, 4
"""Bytes of a prediction, and of a weight that UPDATE reads or writes, of preset paper."""
OPTIONS = {"stream": (EVERY, STREAMED), "deferred": (EVERY, DEFERRED), "deferred_taught": (1, DEFERRED)}
"""By name: one of how many batches teaches the predictor, and GP's batches."""


def n_weights(design: Mapping[str, Batch]) -> int:
    """Weights that are predicted: of each, a GP batch that isn't streamed writes a prediction to memory.

    Raises ValueError for batches that don't differ by whole predictions.
    """
    written = design[KEPT].counters["write_bytes"] - design[STREAMED].counters["write_bytes"]
    if written <= 0 or written % PREDICTION_BYTES:
        raise ValueError(f"a streamed GP batch writes {written} bytes less, which aren't predictions")
    return written // PREDICTION_BYTES


def deferred(design: Mapping[str, Batch]) -> Batch:
    """A GP batch that leaves weights alone: the bytes of the streamed one without theirs."""
    spared = WEIGHT_BYTES * n_weights(design)
    found = {name: design[STREAMED].counters[name] - spared for name in ("read_bytes", "write_bytes")}
    if min(found.values()) < 0:
        raise ValueError(f"a GP batch moves fewer bytes than the {spared} of its weights")
    return Batch(found)


def figures(part: str, baseline: Mapping[str, Batch], design: Mapping[str, Batch]) -> dict[str, float]:
    """Savings of a part by option."""
    batches = {**design, DEFERRED: deferred(design)}
    found = {}
    for option, (every, gp) in OPTIONS.items():
        energy = sum(
            share * batches[gp if name == "gp" else name].millijoules for name, share in shares(every).items()
        )  # fmt: skip
        found[f"dram_energy_saving_{part}_{option}"] = round(1 - energy / baseline["bp"].millijoules, 4)
    return found


def main(arguments: Iterable[str] | None = None) -> None:
    """Entry point of ``nox -s bench_deferred_traffic``."""
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )  # fmt: skip
    parser.add_argument("--counted", type=Path, default=FOLDER / "prediction_traffic.json", metavar="PATH",
                        help="what the bench prediction_traffic has written (default: %(default)s)")  # fmt: skip
    parser.add_argument("--json", type=writable, default=FOLDER / "deferred_traffic.json", metavar="PATH")
    given = parser.parse_args(None if arguments is None else list(arguments))
    source = commit()
    try:
        counted = json.loads(given.counted.read_text())
    except (OSError, ValueError) as error:
        parser.error(f"--counted {given.counted}: {error}")
    for part, rows in counted["details"].items():
        baseline, design = (
            {phase: Batch(counters) for phase, counters in rows["details"][which].items()}
            for which in ("baseline", "max")
        )  # fmt: skip
        one, of = deferred(design), counted["provenance"][part]
        details = {"weights": n_weights(design), "gp": one.counters, "counted_at": of["commit"]}
        origin = {**provenance(COMMAND, None, SEED, source), "code": of["code"]}  # as old as what it counts
        merge_results(given.json, part, figures(part, baseline, design), details, origin)
        print(f"{part}: {details['weights']:,} weights")


if __name__ == "__main__":
    main()
