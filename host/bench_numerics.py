"""int16 block floating point against fp32 PyTorch on equal terms: writes ``results/numerics.json``.

Each pair of runs has the same initial weights, order of images, schedule and SGD. A finished run is kept in
``build/bench_numerics``: a bench that was stopped goes on after the last one.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from ..golden.operands import COMPUTE, operands
from ..spec.commands import Opcode, Phase
from ..spec.presets import preset
from .data import Dataset, load_dataset
from .models import build_model
from .network import Network
from .results import FOLDER, commit, provenance, write_results
from .run_folder import write_atomically
from .session import open_session
from .settings import TrainSettings
from .trainer import Trainer, evaluate

__all__ = ["CASES", "Case", "figures", "main", "results_per_batch", "run_float", "run_integer"]

SEEDS = range(5)
KINDS = ("fp32", "int16")
WORK = Path("build/bench_numerics")
COMMAND = "python -m adagp.host.bench_numerics --data-dir FOLDER_OF_FASHION_MNIST"
EVALUATION_IMAGES = 500
"""Images that PyTorch evaluates at a time."""


@dataclass(frozen=True)
class Case:
    """A comparison: its name, and the settings of its runs but for the seed."""

    name: str
    settings: dict = field(default_factory=dict)


CASES = (
    Case("digits"),
    Case("fashion_lenet", {
        "model": "lenet", "data": "fashion-mnist", "epochs": 3, "learning_rate": 0.05, "train_images": 12_000,
    }),
    Case("fashion_vgg", {
        "model": "vgg-small", "data": "fashion-mnist", "epochs": 2, "learning_rate": 0.02, "train_images": 8_000,
    }),
)  # fmt: skip


def run_float(settings: TrainSettings, dataset: Dataset) -> dict:
    """A run in fp32 by PyTorch: accuracy on all test images, mean training loss of the last epoch."""
    model = build_model(settings.model, dataset.shape, dataset.n_classes, settings.seed)
    sgd = torch.optim.SGD(
        model.parameters(), settings.learning_rate, momentum=settings.momentum, weight_decay=settings.weight_decay
    )
    x_NCHW = torch.from_numpy(dataset.train_x_NCHW[: settings.train_images])
    y_N = torch.from_numpy(dataset.train_y_N[: settings.train_images])
    steps = len(x_NCHW) // settings.batch
    for epoch in range(settings.epochs):
        order = np.random.default_rng([settings.seed, epoch]).permutation(len(x_NCHW))
        loss_sum = 0.0
        for step in range(steps):
            images = torch.from_numpy(order[step * settings.batch : (step + 1) * settings.batch])
            sgd.param_groups[0]["lr"] = settings.learning_rate_at(epoch * steps + step, settings.epochs * steps)
            loss = cross_entropy(model(x_NCHW[images]), y_N[images])
            sgd.zero_grad()
            loss.backward()
            sgd.step()
            loss_sum += loss.item()
    with torch.no_grad():
        logits = [model(part) for part in torch.from_numpy(dataset.test_x_NCHW).split(EVALUATION_IMAGES)]
    accuracy = np.mean(torch.cat(logits).argmax(dim=1).numpy() == dataset.test_y_N)
    return {"test_accuracy": float(accuracy), "train_loss": loss_sum / steps}


def results_per_batch(network: Network) -> int:
    """Numbers that a training batch writes and that may saturate: results of commands, weights and momenta."""
    commands = [line.command for line in network.program if line.command.phase_mask & Phase.WARMUP]
    computed = [operands(c, network.config)["out"] for c in commands if c.opcode in COMPUTE]
    updated = sum(c.count for c in commands if c.opcode == Opcode.UPDATE)
    return sum(math.prod(out.shape) for out in computed) + 2 * updated


def run_integer(settings: TrainSettings, dataset: Dataset) -> dict:
    """The same run in int16 block floating point by the golden model, and how many results saturated."""
    few = replace(dataset, test_x_NCHW=dataset.test_x_NCHW[:1], test_y_N=dataset.test_y_N[:1])
    with open_session(settings, "golden") as session:
        trainer = Trainer(settings, session.network, session.device, few)  # tests on all images only at the end
        progress = trainer.run()
        _, accuracy = evaluate(session.network, session.device, dataset.test_x_NCHW, dataset.test_y_N)
        batches = settings.epochs * trainer.steps_per_epoch
        return {
            "test_accuracy": accuracy, "train_loss": progress.log[-1]["train_loss"],
            "saturations": progress.counters["saturations"], "results": batches * results_per_batch(session.network),
        }  # fmt: skip


def _run(case: Case, seed: int, kind: str, folder: Path | None) -> dict:
    """The result of one run: that in its work file, else a new one."""
    settings = TrainSettings(seed=seed, **case.settings)
    path = WORK / f"{case.name}-{kind}-{seed}.json"
    if path.exists():
        record = json.loads(path.read_text())
        if record["settings"] == settings.to_dict():
            return record
    placed = replace(settings, data_dir=None if folder is None else str(folder))
    dataset = load_dataset(placed.data, placed.data_path)
    source, began = commit(), time.perf_counter()
    result = (run_float if kind == "fp32" else run_integer)(placed, dataset)
    seconds = round(time.perf_counter() - began, 1)
    images = {"train_images": len(dataset.train_y_N[: settings.train_images]), "test_images": len(dataset.test_y_N)}
    record = {"settings": settings.to_dict(), "commit": source, "seconds": seconds, **images, **result}
    write_atomically(path, (json.dumps(record, indent=1) + "\n").encode())
    return record


def figures(runs: dict[str, dict[str, list[dict]]]) -> tuple[dict, dict]:
    """Figures and details of finished runs, given as lists over the seeds by case and kind."""
    found, details, integer = {}, {}, []
    for name, by_kind in runs.items():
        points = {kind: [100 * run["test_accuracy"] for run in by_kind[kind]] for kind in KINDS}
        deltas = [i - f for f, i in zip(points["fp32"], points["int16"], strict=True)]
        found[f"{name}_delta_points"] = round(statistics.mean(deltas), 4)
        found[f"{name}_delta_std_points"] = round(statistics.stdev(deltas), 4)
        integer += by_kind["int16"]
        details[name] = {
            "delta_points": [round(delta, 4) for delta in deltas],
            "std_points": {kind: round(statistics.stdev(points[kind]), 4) for kind in KINDS}, "runs": by_kind,
        }  # fmt: skip
        for kind in KINDS:
            found[f"{name}_{kind}_accuracy"] = round(statistics.mean(points[kind]) / 100, 6)
    found["saturated_fraction"] = sum(run["saturations"] for run in integer) / sum(run["results"] for run in integer)
    return found, details


def _runs(folder: Path | None) -> Iterator[tuple[str, str, dict]]:
    total = len(CASES) * len(SEEDS) * len(KINDS)
    done = 0
    for case in CASES:
        for seed in SEEDS:
            for kind in KINDS:
                record = _run(case, seed, kind, folder)
                done += 1
                accuracy, seconds = 100 * record["test_accuracy"], record["seconds"]
                print(f"{done:2d}/{total}  {case.name} seed {seed} {kind}: {accuracy:.2f} % in {seconds} s", flush=True)
                yield case.name, kind, record


def main() -> None:
    """Entry point of ``nox -s bench_numerics``."""
    parser = argparse.ArgumentParser(prog="python -m adagp.host.bench_numerics", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True, help="folder with the files of Fashion-MNIST")
    parser.add_argument("--output", type=Path, default=FOLDER / "numerics.json")
    parser.add_argument("--fresh", action="store_true", help="forget the runs of a bench that was stopped")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.fresh:
        for path in WORK.glob("*.json"):
            path.unlink()
    runs: dict[str, dict[str, list[dict]]] = {case.name: {kind: [] for kind in KINDS} for case in CASES}
    source = commit()
    for name, kind, record in _runs(arguments.data_dir):
        runs[name][kind].append(record)
    found, details = figures(runs)
    origin = provenance(COMMAND, preset(TrainSettings().preset), list(SEEDS), source)
    write_results(arguments.output, found, details, origin)
    for figure, value in found.items():
        print(f"{figure}: {value}")


if __name__ == "__main__":
    main()
