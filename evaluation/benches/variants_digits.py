"""The digits CNN trained on the simulated RTL by each of the four designs: writes ``results/variants_digits.json``.

All run on one schedule (its phases are the paper's, fewer epochs each); the baseline trains with true gradients all the
while. ``hash_equal``: LOW, Efficient and MAX end with the weights, momenta and exponents of the golden model's ADA-GP,
the baseline with those of its backpropagation, and so do the three when every epoch is of warm-up; ``hashes_differ``:
these two and the initial weights' are three. Cycles and traffic are means over the run's batches of a phase, without
the first batch, which is computed twice to calibrate. Figures are as in ``variants_vgg13.json``, but ``speedup_*``,
``implied_limit`` and the energy are of this run's shares of phases, and the energy is as if the memory were the module
of ``paper``; ``cycles_run_*`` is all of it, evaluations apart.

A run that is finished is kept in ``build/bench_variants``: a bench that was stopped goes on after the last one.
"""

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from multiprocessing import get_context

from ...gen.files import write_atomically
from ...gen.provenance import commit, provenance
from ...host.compiler.compiler import Compiled
from ...host.console import at_least_one, writable
from ...host.devices.simulated import SimDevice
from ...host.training import timeline
from ...host.training.inference import predict
from ...host.training.progress import Progress
from ...host.training.session import open_session
from ...host.training.settings import TrainSettings
from ...host.training.sources import training_sources
from ...host.training.trainer import Trainer
from ...sim.build import library
from ...spec.config import VARIANTS
from ...spec.phases import EVALUATION, PHASE_NAMES
from ...spec.presets import preset
from ..instruments.results import FOLDER, write_results
from ..instruments.variants import Measured, alpha, directions, figures, predictor_macs, useful
from .variants_vgg13 import WORK

__all__ = ["SETTINGS", "main"]

COMMAND = "python -m adagp.evaluation.benches.variants_digits"
SETTINGS = TrainSettings(epochs=12, warmup_epochs=3, phases="2*4:1 2*3:1 2*2:1 1:1")
RECORDED = 60
"""Batches whose timeline is kept, after the warm-up."""


def runs() -> dict[str, tuple[str, TrainSettings]]:
    """By name: device and settings."""
    found = {variant: ("sim", replace(SETTINGS, variant=variant)) for variant in VARIANTS}
    found |= {
        f"{variant}-warmup": ("sim", replace(SETTINGS, variant=variant, warmup_epochs=SETTINGS.epochs))
        for variant in VARIANTS[1:]
    }
    for name, variant in (("golden-plain", "baseline"), ("golden-predicted", "low")):
        found[name] = ("golden", replace(SETTINGS, variant=variant))
    return found


def train(name: str) -> dict:
    """One of :func:`runs`: hashes before and after, accuracy, counters by phase, slices of some batches."""
    device_name, settings = runs()[name]
    record = WORK / f"digits-{name}.json"
    with open_session(settings, device_name) as session:
        network, device, dataset = session.network, session.device, session.dataset
        machine = library(device.config).name if isinstance(device, SimDevice) else "golden"
        key = [settings.to_dict(), network.program.digest, machine, training_sources()]
        if record.exists() and (kept := json.loads(record.read_text()))["key"] == key:
            return kept
        print(f"{name}: {settings.epochs} epochs", flush=True)
        before = network.weights_hash(device)
        first: dict[str, int] = {}

        def on_batch(progress: Progress, _loss: float | None) -> None:
            if not first:
                trainer.read_counters()
                first.update(progress.by_phase[0])

        trainer = Trainer(settings, network, device, dataset, on_batch=on_batch)
        firsts = trainer.steps_per_epoch * settings.warmup_epochs
        path = WORK / f"digits-{name}-timeline.json"
        path.unlink(missing_ok=True)
        if isinstance(device, SimDevice):
            trainer.timeline = timeline.Timeline(device, network.program, path, firsts, firsts + RECORDED - 1)
        progress = trainer.run()
        device.reset_counters()
        predict(network, device, dataset.test_x_NCHW[: settings.batch])
        found = {
            "key": key, "before": before, "hash": network.weights_hash(device),
            "accuracy": progress.log[-1]["test_accuracy"], "batches": progress.batches,
            "counters": progress.by_phase, "first": first, "evaluation": device.counters(EVALUATION),
            "slices": [asdict(s) for s in trainer.timeline.slices] if trainer.timeline else [],
        }  # fmt: skip
    write_atomically(record, json.dumps(found).encode())
    print(f"{name}: {found['accuracy']:.2%}", flush=True)
    return found


def measured(variant: str, row: dict, compiled: Compiled, forward: float) -> Measured:
    """A design's mean batches, without the first; ``forward``: cycles of the baseline's forward pass."""
    counters = {}
    for phase, (name, sums, count) in enumerate(zip(PHASE_NAMES, row["counters"], row["batches"], strict=False)):
        left, less = count - (phase == 0), row["first"] if phase == 0 else {}
        if left:
            counters[name] = {key: (value - less.get(key, 0)) / left for key, value in sums.items()}
    counters["evaluation"] = row["evaluation"]
    config, program, work = compiled.config, compiled.program, useful(compiled)
    if not config.predicts:
        return Measured(variant, config.n_pes, {**counters, "bp": counters["warmup"]}, useful_macs=work)
    slices = [timeline.Slice(**s) for s in row["slices"]]
    costs = alpha(slices, program, config, forward)
    return Measured(variant, config.n_pes, counters, costs, predictor_macs(program, config), work)


def main() -> None:
    """Entry point of ``nox -s bench_variants_digits``."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--output", type=writable, default=FOLDER / "variants_digits.json")
    parser.add_argument("--jobs", type=at_least_one, default=1, help="runs at once")
    arguments = parser.parse_args()
    source, config = commit(), preset(SETTINGS.preset)
    WORK.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(arguments.jobs, get_context("spawn")) as pool:
        jobs = {name: pool.submit(train, name) for name in runs()}
        found = {name: job.result() for name, job in jobs.items()}
    designs, details = {}, {}
    for variant in VARIANTS:
        row = found[variant]
        with open_session(replace(SETTINGS, variant=variant), "golden") as session:
            compiled = session.network.compiled
        designs[variant] = measured(variant, row, compiled, found["baseline"]["evaluation"]["cycles"])
        slices = [timeline.Slice(**s) for s in row["slices"]]
        details[variant] = {
            "utilisation": directions(slices, compiled.program, config.n_pes), "counters": designs[variant].counters,
            "batches": row["batches"], "hash": row["hash"], "accuracy": row["accuracy"],
        }  # fmt: skip
    result = outcome(found, designs)
    result |= details["baseline"]["utilisation"]
    write_results(arguments.output, result, details, provenance(COMMAND, config, SETTINGS.seed, source))
    for name, value in result.items():
        print(f"{name}: {value}")
    if not (result["hash_equal"] and result["hashes_differ"]):
        raise ValueError("a run hasn't ended with the weights that it must end with")


def outcome(found: dict[str, dict], designs: dict[str, Measured]) -> dict:
    """The figures of all runs."""
    batches = dict(zip(PHASE_NAMES, found["low"]["batches"], strict=False))
    result = figures(designs, {phase: count / sum(batches.values()) for phase, count in batches.items()})
    predicted, plain = found["golden-predicted"]["hash"], found["golden-plain"]["hash"]
    for variant in VARIANTS:
        row = found[variant]
        result[f"accuracy_{variant}"] = round(row["accuracy"], 5)
        result[f"cycles_run_{variant}"] = sum(sums.get("cycles", 0) for sums in row["counters"])
    result["hash_equal"] = (
        all(found[variant]["hash"] == predicted for variant in VARIANTS[1:]) and found["baseline"]["hash"] == plain
        and all(found[f"{variant}-warmup"]["hash"] == plain for variant in VARIANTS[1:])
    )  # fmt: skip
    result["hashes_differ"] = len({predicted, plain, found["baseline"]["before"]}) == 3
    return result


if __name__ == "__main__":
    main()
