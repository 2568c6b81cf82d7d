"""ADA-GP on pipelines of four simulated devices: writes ``results/pipelines.json``, a part of it for each network.

``steps_*``: steps of a BP batch, and of a GP and a BP batch, in the paper's unit; four equal stages and micro-batches.
The steps and their order are those of a run on the simulated RTL, and each counts as the paper counts it.

All else is of ``vgg-small`` on 16x16 images, or of VGG13 on 32x32 images (names begin with ``vgg13_``, of one device
alone with ``vgg13_alone_``, in batches of 16 images with ``vgg13_batch16_``), in cycles of the simulated RTL.
``cycles_bp_*``: a batch on the baseline design, ``ada_*``: on the design with a predictor.
``speedup_*``: a pipeline without predictions over one device of the baseline design with the same micro-batches.
``gain_*``: ADA-GP over the same schedule without it, in the paper's phases of 90 epochs; ``total_*``: over one device
without it. Names that end in ``_link`` are with messages that take time, those in ``_balanced`` with each kind of step
equally long on all devices, as a perfect cut would have it. Runs of GP and BP batches are laid out from the cycles of a
run's steps; that of two GP batches and a BP batch is also run. ``layout_error``: the largest part by which a run and
its layout differ; steps' own cycles vary a little by batch.

What is measured is kept in ``build/bench_pipelines``: a bench that was stopped goes on after it. The results are
written anew after each schedule, and have those that are done.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from torch import nn

from ...algorithm import paper_numbers as paper
from ...gen.cache import digest
from ...gen.files import write_atomically
from ...gen.hardware_digest import hardware_digest
from ...gen.provenance import commit, provenance
from ...host.compiler.values import inputs_of
from ...host.console import writable
from ...host.devices.simulated import SimDevice
from ...host.pipelines.counts import Mix
from ...host.pipelines.device_program import Staged
from ...host.pipelines.job import pipeline_sources
from ...host.pipelines.schedules import CHUNKS
from ...host.pipelines.staged_network import Link, StagedNetwork, staged_of
from ...host.pipelines.steps import Step, What
from ...host.pipelines.training import one_device_cycles
from ...host.training.data import Dataset
from ...host.training.models import build_model
from ...host.training.settings import TrainSettings
from ...spec.phases import PHASE_NAMES
from ..instruments.pipeline_steps import UNITS, Steps, balanced_steps, laid, mean_cycles, ran_batches, shares
from ..instruments.results import FOLDER, merge_results

__all__ = [
    "CASES", "CLASSES", "DEVICES", "IDEAL", "LINK", "MIX", "SCHEDULES", "WORK", "Case", "figure_name", "kept",
    "laid_out", "main", "of_schedule", "on_one_device", "pipelined", "steps_of",
]  # fmt: skip

COMMAND = "python -m adagp.evaluation.benches.pipelines"
WORK = Path("build/bench_pipelines")
SCHEDULES = ("gpipe", "1f1b", "chimera", "zb-h1")
DEVICES, CLASSES = 4, 10
VARIANT = "max"
IDEAL, LINK = Link(), Link(latency=200, bytes_per_cycle=4)
MIX = Mix(paper.EPOCHS, paper.WARMUP_EPOCHS, paper.PHASES)


@dataclass(frozen=True)
class Case:
    """A network whose cycles are measured; names of its figures begin with ``prefix``.

    ``schedules``: in the order in which they run.
    """

    settings: TrainSettings
    shape: tuple[int, int, int]
    prefix: str = ""
    schedules: tuple[str, ...] = SCHEDULES


CASES = {
    "vgg-small": Case(TrainSettings(model="vgg-small", preset="tiny", batch=4, micro_batches=4, seed=1), (3, 16, 16)),
    "vgg13": Case(
        TrainSettings(model="vgg13", preset="paper", batch=8, micro_batches=4, seed=1), (3, 32, 32), "vgg13_",
        ("gpipe", "chimera", "1f1b", "zb-h1"),
    ),
    "vgg13-one-device": Case(
        TrainSettings(model="vgg13", preset="paper", batch=8, micro_batches=4, seed=1), (3, 32, 32), "vgg13_alone_", (),
    ),
    "vgg13-batch16": Case(
        TrainSettings(model="vgg13", preset="paper", batch=16, micro_batches=4, seed=1), (3, 32, 32), "vgg13_batch16_",
        ("1f1b",),
    ),
}  # fmt: skip
"""Parts of the results. Steps are counted in the first one."""


def figure_name(schedule: str) -> str:
    """The schedule in names of figures."""
    return schedule.replace("-", "_")


def equal_stages(classes: int) -> nn.Module:
    """Four convolutions alike, of which the last one's only pixel has the classes."""
    layers = [layer for _ in range(DEVICES) for layer in (nn.Conv2d(classes, classes, 1), nn.ReLU())]
    return nn.Sequential(*layers[:-1], nn.Flatten())


def kept(name: str, settings: TrainSettings, measure: Callable[[], dict]) -> dict:
    """A measurement of the same hardware, host and settings, or a new one."""
    key = digest(hardware_digest(settings.config), pipeline_sources(), repr(settings.to_dict()), name)
    path = WORK / f"{name}-{key}.json"
    if not path.exists():
        began = time.monotonic()
        print(f"{name} ...", flush=True)
        write_atomically(path, json.dumps(measure()).encode())
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    found: dict = json.loads(path.read_text())
    return found


def on_one_device(settings: TrainSettings, shape: tuple[int, ...], updates: bool = False) -> dict[str, int]:
    """Cycles of a batch by phase on one device; ``updates``: each micro-batch has its own."""
    draw = np.random.default_rng(settings.seed)
    x_NCHW = draw.random((2 * settings.batch, *shape), np.float32)
    y_N = draw.integers(0, CLASSES, 2 * settings.batch)
    dataset = Dataset("random", x_NCHW, y_N, x_NCHW[:1], y_N[:1], CLASSES)
    found = one_device_cycles(settings, "sim", dataset, updates)
    return {PHASE_NAMES[phase]: cycles for phase, cycles in found.items()}


def pipelined(
    settings: TrainSettings, schedule: str, module: nn.Module, shape: tuple[int, ...], cut=None, hybrid: bool = False
) -> dict:
    """The steps of batches on simulated devices, with what a record can hold."""
    devices: list[SimDevice] = []
    try:
        devices += (SimDevice(settings.config) for _ in range(DEVICES))
        pipeline = StagedNetwork(
            module, shape, settings.batch, settings.config, devices, schedule, settings.micro_batches, cut=cut,
            source=source_of(settings), hybrid=hybrid,
        )  # fmt: skip
        began = time.monotonic()

        def seen(text: str) -> None:
            print(f"  {time.monotonic() - began:5.0f} s: {text}", flush=True)

        found = ran_batches(pipeline, module, shape, CLASSES, settings.seed, seen)
    finally:
        for device in devices:
            device.close()
    steps = {
        phase: [
            [place, step.what, step.stage, step.micro_batch, step.phase, step.replica, cycles]
            for place, step, cycles in batch
        ]
        for phase, batch in found["steps"].items()
    }
    return {"steps": steps, "cycles": found["cycles"], "stages": pipeline.staged.stage_of}


def laid_out(settings: TrainSettings, schedule: str, module: nn.Module, shape: tuple[int, ...], cut=None) -> Staged:
    """The stages of a pipeline, without devices."""
    return staged_of(
        module, inputs_of(shape, 1.0), settings.batch, settings.config, DEVICES, schedule, settings.micro_batches,
        cut=cut, chunks=CHUNKS, source=source_of(settings),
    )  # fmt: skip


def source_of(settings: TrainSettings) -> str | None:
    """The source of gradients in GP batches."""
    return settings.gradient_source if settings.predicts else None


def steps_of(record: dict) -> dict[str, Steps]:
    """The steps of a record by phase."""
    return {
        name: [(place, Step(What(what), stage, micro_batch, 0, phase, replica), cycles)
               for place, what, stage, micro_batch, phase, replica, cycles in batch]
        for name, batch in record["steps"].items()
    }  # fmt: skip


def counted(settings: TrainSettings) -> Iterator[tuple[str, float]]:
    """Steps by the paper's unit, of runs on four equal stages."""
    module, shape = equal_stages(CLASSES), (CLASSES, 1, 1)
    cut = [f"{2 * number}.Conv2d" for number in range(1, DEVICES)]
    for schedule in SCHEDULES:
        record = kept(f"equal-{schedule}", settings, partial(pipelined, settings, schedule, module, shape, cut))
        plan = laid_out(settings, schedule, module, shape, cut)
        found = {name: [(place, step, float(UNITS.get(step.what, 0))) for place, step, _ in batch]
                 for name, batch in steps_of(record).items()}  # fmt: skip
        name = figure_name(schedule)
        yield f"steps_bp_{name}", laid(plan, [found["bp"]], IDEAL)
        yield f"steps_gp_bp_{name}", laid(plan, [found["gp"], found["bp"]], IDEAL)


def main() -> None:
    """Entry point of ``nox -s bench_pipelines``."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--networks", nargs="+", choices=CASES, default=list(CASES), help="default: all")
    parser.add_argument("--output", type=writable, default=FOLDER / "pipelines.json")
    arguments = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    for name in arguments.networks:
        measure(name, arguments.output, commit())


def measure(name: str, path: Path, source: str) -> None:
    """Measure a case, and write its part of the results after each schedule; one device with ADA-GP comes last."""
    case = CASES[name]
    settings, shape, prefix = case.settings, case.shape, case.prefix
    both = settings, replace(settings, variant=VARIANT)
    module = build_model(settings.model, shape, CLASSES, settings.seed)
    figures: dict[str, float] = dict(counted(both[1])) if case is next(iter(CASES.values())) else {}
    alone = {"baseline": kept(f"one-baseline-{shape[1]}", settings, partial(on_one_device, settings, shape))}
    figures[f"{prefix}cycles_bp_one"] = one = alone["baseline"]["warmup"]
    details: dict[str, object] = {"one_device": alone, "link": vars(LINK), "settings": settings.to_dict()}
    origin = provenance(f"{COMMAND} --networks {name}", both[1].config, settings.seed, source)
    error = f"{prefix}layout_error"
    for schedule in case.schedules:
        runs, plans = {}, {}
        for each in both:
            variant = each.variant
            record = kept(f"{schedule}-{variant}-{shape[1]}", each, partial(pipelined, each, schedule, module, shape))
            runs[variant] = steps_of(record)
            plans[variant] = laid_out(each, schedule, module, shape)
            sequence = [runs[variant][phase] for phase in (["gp", "gp", "bp"] if each.predicts else ["bp"])]
            differs = abs(laid(plans[variant], sequence, IDEAL) / record["cycles"] - 1)
            figures[error] = max(figures.get(error, 0.0), differs)
            details[f"{schedule} {variant}"] = record
        found = of_schedule(figure_name(schedule), plans, runs, one)
        figures |= {f"{prefix}{figure}": value for figure, value in found}
        merge_results(path, name, figures, details, origin)
        print(f"{name}: {schedule} done", flush=True)
    alone[VARIANT] = ada = kept(f"one-{VARIANT}-{shape[1]}", both[1], partial(on_one_device, both[1], shape))
    figures |= {f"{prefix}ada_{phase}_one": ada[phase] for phase in ("bp", "gp")}
    figures[f"{prefix}gain_one"] = float(one / ((1 - MIX.share) * ada["bp"] + MIX.share * ada["gp"]))
    merge_results(path, name, figures, details, origin)
    for figure, value in figures.items():
        print(f"{figure}: {value:,.6g}")


def of_schedule(name: str, plans: dict, runs: dict[str, dict[str, Steps]], one: int) -> Iterator[tuple[str, float]]:
    """Figures of a schedule."""
    plain, ada = runs["baseline"], runs[VARIANT]
    even = {key: {phase: balanced_steps(batch) for phase, batch in each.items()} for key, each in runs.items()}
    yield f"cycles_bp_{name}", laid(plans["baseline"], [plain["bp"]], IDEAL)
    yield f"ada_bp_{name}", laid(plans[VARIANT], [ada["bp"]], IDEAL)
    yield f"ada_gp_{name}", laid(plans[VARIANT], [ada["gp"]] * 3, IDEAL) - laid(plans[VARIANT], [ada["gp"]] * 2, IDEAL)
    yield f"largest_share_{name}", max(shares(plain["bp"], DEVICES))
    for end, link, each in (("", IDEAL, runs), ("_link", LINK, runs), ("_balanced", IDEAL, even)):
        without = laid(plans["baseline"], [each["baseline"]["bp"]], link)
        mixed = mean_cycles(plans[VARIANT], each[VARIANT], MIX, link)
        yield f"speedup_{name}{end}", one / without
        yield f"gain_{name}{end}", without / mixed
        yield f"total_{name}{end}", one / mixed


if __name__ == "__main__":
    main()
