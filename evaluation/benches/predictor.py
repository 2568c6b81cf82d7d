"""Measures if longer training makes predictions better: writes ``results/predictor.json``.

A network is trained with true gradients alone, and the predictor beside it, for as many batches as in the paper's
trainings; in none is anything predicted, so that nothing spoils what is learned from. Once more with the network held
as it begins, so that what is to be learned stays the same. ``cosine_first``, ``cosine_last``: between predicted and
true gradients, the predictions made before a batch is learned from, over the first and the last tenth of batches and
over layers, each by its number of weights. ``signs_last``: equal signs, likewise. Means over seeds; details have each
layer's over all tenths.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

import torch
from rich.progress import track

from ...algorithm import AdaGP, schedule
from ...algorithm.paper_numbers import EPOCHS
from ...experiments.data import Batches, Splits
from ...experiments.methods.methods import METHODS
from ...experiments.methods.optimisation import MOMENTUM
from ...experiments.networks.models import build
from ...experiments.preparation import prepared
from ...experiments.regimes import REGIMES
from ...experiments.tasks import CLASSIFICATION
from ...gen.provenance import commit, provenance
from ...host.console import at_least_one, screen, writable
from ..instruments.results import FOLDER, merge_results

__all__ = ["BATCH", "IMAGES", "figures_of", "main", "paper_batches", "tenths"]

COMMAND = "python -m adagp.evaluation.benches.predictor"
REGIMES_OF = {"digits": REGIMES["digits-long"], "fashion-mnist": REGIMES["fashion-long"]}
"""Whose network, images and batches these are."""
LR = 0.05
IMAGES, BATCH = 45_000, 128
"""CIFAR's usual numbers; the paper doesn't give them."""
TENTHS = 10
MEASURED = {"cosine": "cosine", "signs": "sign_agreement"}


def paper_batches() -> int:
    """With true gradients, in a training of the paper's."""
    planned = METHODS["ada-gp"].planned(EPOCHS, -(-IMAGES // BATCH))
    return planned["warmup"] + planned["bp"]


def tenths(splits: Splits, size: int, batches: int, held: bool, seed: int) -> list[dict[str, dict[str, float]]]:
    """Measures by layer, of each tenth of ``batches``; ``held``: the network isn't trained."""
    network = build(
        REGIMES_OF[splits.name].model, splits.n_classes, size, seed, channels=splits.train.images_NCHW.shape[1]
    )
    optimizer = torch.optim.SGD(network.parameters(), 0.0 if held else LR, momentum=MOMENTUM)
    found = []
    with AdaGP(network, optimizer, schedule(TENTHS), seed=seed) as ada:
        endless = _endless(splits, seed)
        for _ in range(TENTHS):
            for _ in range(batches // TENTHS):
                batch = next(endless)
                ada.step(lambda batch=batch: CLASSIFICATION.loss(network, batch))
            ada.end_epoch()
        assert ada.metrics
        for tenth in range(TENTHS):
            rows = [row for row in ada.metrics.rows if row["epoch"] == tenth]
            found.append({str(row["layer"]): {name: float(row[key]) for name, key in MEASURED.items()} for row in rows})
        weights = {name: network.get_parameter(name).numel() for name in ada.predicted}
    total = sum(weights.values())
    for by_layer in found:
        by_layer["all"] = {
            name: sum(weights[layer] * by_layer[layer][name] for layer in weights) / total for name in MEASURED
        }
    return found


def _endless(splits: Splits, seed: int) -> Iterator:
    epoch = 0
    while True:
        yield from Batches(splits.train, REGIMES_OF[splits.name].batch_size, seed, epoch)
        epoch += 1


def figures_of(name: str, runs: Sequence[Sequence[Mapping[str, Mapping[str, float]]]]) -> dict[str, float]:
    """Cosines of runs from several seeds."""
    found = {
        f"cosine_first_{name}": fmean(run[0]["all"]["cosine"] for run in runs),
        f"cosine_last_{name}": fmean(run[-1]["all"]["cosine"] for run in runs),
        f"signs_last_{name}": fmean(run[-1]["all"]["signs"] for run in runs),
    }
    return {name: round(value, 4) for name, value in found.items()}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )  # fmt: skip
    parser.add_argument(
        "--batches", type=at_least_one, default=paper_batches(), help="of each run (default: %(default)s)"
    )
    parser.add_argument("--seeds", type=at_least_one, default=3, help="runs of each kind (default: %(default)s)")
    parser.add_argument("--fashion", type=Path, metavar="FOLDER", help="also with Fashion-MNIST, whose files are there")
    parser.add_argument("-o", "--output", type=writable, default=FOLDER / "predictor.json")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``nox -s bench_predictor``."""
    options = _parser().parse_args(argv)
    torch.set_num_threads(1)
    source = commit()
    folders = {"digits": None} | ({"fashion-mnist": options.fashion} if options.fashion else {})
    for data, folder in folders.items():
        size = REGIMES_OF[data].image_size
        splits = prepared(data, folder, size=size)
        figures: dict[str, float] = {}
        details = {}
        for kind, held in (("trained", False), ("held", True)):
            seeds = track(range(options.seeds), f"{data}, network {kind}", console=screen)
            runs = [tenths(splits, size, options.batches, held, seed) for seed in seeds]
            figures |= figures_of(f"{data}_{kind}", runs)
            details[kind] = runs
        origin = provenance(COMMAND, None, list(range(options.seeds)), source, "library")
        merge_results(options.output, data, figures, {"batches": options.batches, "tenths": details}, origin)
        for name, value in figures.items():
            print(f"{name}: {value}")


if __name__ == "__main__":
    main()
