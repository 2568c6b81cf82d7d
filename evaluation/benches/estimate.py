"""The estimator against the simulated RTL: goes on with ``results/estimate.json``.

``commands``: single commands of layers of the paper's networks, in all four designs, from
``estimate_commands.json``. Layers and commands are drawn by kind with a seed that nothing was tuned on, and the
estimator isn't tuned on them. A network's layers are compiled alone for one design, with two images of 32 pixels
(YOLO-v3: 64) or sentences of twelve words. Commands that would take too many cycles by the estimate are left out: with
preset ``ecp5`` all of the Transformer's. The designs are a preset as it is. With ``--switched`` they have all that the
generator's switches build, and the commands are those that only switches build, from
``estimate_commands_switched.json``: batch norm, depthwise convolutions, bounds and slopes, dropout, products.
``--draw`` draws the commands anew and needs the extra ``models``; measuring them doesn't.

``batches``: whole batches of each variant, warm-up, BP and GP. ``error_*`` are magnitudes of estimated over simulated
cycles less 1: median, 90th percentile, worst; ``read_error_*``, ``write_error_*`` those of DRAM bytes, the worst.

Each measurement is kept in ``build/bench_estimate``: a bench that was stopped goes on after the last one.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ...gen.files import write_atomically
from ...gen.provenance import SWITCHED, commit, provenance
from ...host.compiler.lowering import LoweringError
from ...host.compiler.mapping import MappingError
from ...host.compiler.memory_plan import PlanError
from ...host.console import at_least_one, writable
from ...host.devices.simulated import SimDevice
from ...host.training.models import MODELS, build_model
from ...host.training.network import Network
from ...sim.build import library
from ...spec.config import VARIANTS, Config
from ...spec.presets import PRESETS, preset
from ..instruments.command_samples import (
    Sample,
    estimated_alone,
    filled,
    needs_switches,
    program_of,
    read_samples,
    sampled,
    stratum,
    write_samples,
)
from ..instruments.drawn_layers import alone, drawn, kind_of_layer, layers_of, switched
from ..instruments.estimates import Batch, estimated, measured, phases_of
from ..instruments.results import FOLDER, merge_results
from ..instruments.single_command import Bench, bars
from .models import PAPER, SIDES, config_of, inputs_of, module_of

__all__ = ["COUNTED", "SAMPLES", "compared", "draw", "figures", "main"]

COMMAND = "python -m adagp.evaluation.benches.estimate"
WORK = Path("build/bench_estimate")
SAMPLES = {with_all: Path(__file__).with_name(f"estimate_commands{'_switched' * with_all}.json")
           for with_all in (False, True)}  # fmt: skip
"""The drawn commands; those of True need the generator's switches."""
BATCHES_OF = ("vgg-small", "lenet", "digits-cnn", "mlp")
SHAPE, CLASSES, BATCH, SEED = (3, 16, 16), 10, 4, 20261129
DRAWN_SIDE, DRAWN_BATCH = 32, 2
"""Images of the networks whose commands are drawn; SIDES has other sides."""


@dataclass(frozen=True)
class Drawn:
    """A draw of commands: ``each`` of every network, from some ``layers`` of it, of ``most`` cycles at most."""

    seed: int
    networks: tuple[str, ...]
    each: int
    layers: int
    most: int


DRAWN = {
    False: Drawn(20261129, PAPER, each=5, layers=2, most=100_000),
    True: Drawn(
        20261130,
        ("mobilenet-v2", "transformer", "yolo-v3", "inception-v3", "transformer", "mobilenet-v2", "inception-v3",
         "yolo-v3"), each=10, layers=4, most=400_000,
    ),
}  # fmt: skip
"""Draws; that of True is of layers and commands that need the generator's switches, in two designs for each network."""
COUNTED = ("cycles", "read_bytes", "write_bytes")


def network_of(name: str, config: Config) -> tuple[nn.Module, Network]:
    """A network and its program for a design."""
    module = build_model(name, SHAPE, CLASSES, SEED)
    return module, Network(module, SHAPE, BATCH, config, source=_source(config))


def _source(config: Config) -> str | None:
    return "predicted" if config.predicts else None


def compared(ours: Mapping[str, int], theirs: Mapping[str, int]) -> dict[str, int]:
    """Estimated and simulated counters of COUNTED beside each other."""
    return {f"{side}_{name}": values[name] for name in COUNTED
            for side, values in (("estimated", ours), ("simulated", theirs))}  # fmt: skip


def design(size: str, variant: str, with_all: bool) -> Config:
    """The design of a preset and variant; ``with_all`` that the generator's switches build."""
    return replace(config_of(size, variant) if with_all else preset(size), name=size, variant=variant)


def _example(name: str) -> list[torch.Tensor]:
    """Inputs of a network, one image or sentence each."""
    if name == "transformer":
        return [torch.ones(1, *each.shape, dtype=torch.int64) for each in inputs_of(name)]
    side = SIDES.get(name, DRAWN_SIDE)
    return [torch.zeros(1, 3, side, side)]


def draw(path: Path, configs: Mapping[str, Config], each: int, with_all: bool) -> None:
    """Draw ``each`` commands of every network, of some of its layers, and keep them in a file network by network.

    ``configs``: designs by variant, that of a network after that of the one before. Layers that a design can't run are
    passed over. ``with_all``: only layers and commands that need the generator's switches.
    """
    how = DRAWN[with_all]
    about = {"command": f"{COMMAND} --draw{' --switched' * with_all}", "seed": how.seed}
    kinds, strata, samples = Counter[str](), Counter[str](), list[Sample]()
    with bars() as progress:
        for number, name in enumerate(progress.track(how.networks, description="networks")):
            config = list(configs.values())[number % len(configs)]

            def fits(sample: Sample, config: Config = config) -> bool:
                taken = not with_all or needs_switches(sample.command)
                return taken and estimated_alone(sample, config)["cycles"] <= how.most

            wanted, tried = len(samples) + each, 0
            types = switched if with_all else drawn
            for layer in layers_of(module_of(name), _example(name), kinds, f"{how.seed} {name}", types):
                many = -(-(wanted - len(samples)) // max(1, how.layers - tried))
                shape, module = alone(layer)
                try:
                    network = Network(module, shape, DRAWN_BATCH, config, source=_source(config))
                except (LoweringError, MappingError, PlanError):
                    continue
                kinds[kind_of_layer(layer[1])] += 1
                samples += sampled((name, layer[0]), network, many, strata, how.seed, fits)
                tried += 1
                if len(samples) >= wanted:
                    break
            write_samples(path, samples, config, about)


def commands(config: Config, samples: Iterable[Sample]) -> list[dict]:
    """The drawn commands of a design, estimated and simulated."""
    rows, variant = [], config.variant
    chosen = [sample for sample in samples if sample.variant == variant]
    with bars() as progress:
        folder = f"{config.name}-{variant}{'-switched' * config.batch_norm}"
        bench = Bench(WORK / folder, config, progress)
        for sample in progress.track(chosen, description=f"commands of {variant}"):

            def opened(sample: Sample = sample) -> SimDevice:
                device = SimDevice(config, top=bench.top)
                filled(device, sample, SEED)
                return device

            theirs = bench.kept(sample.name, config, program_of(sample, config), opened)
            about = {"variant": variant, "network": sample.network, "layer": sample.layer}
            rows.append({**about, "kind": stratum(sample.command), **compared(estimated_alone(sample, config), theirs)})
    return rows


def batches(config: Config, name: str) -> list[dict]:
    """A network's batches of a design, estimated and simulated."""
    module, network = network_of(name, config)
    record = WORK / f"{config.name}-{config.variant}-{name}.json"
    key = [network.program.digest, library(config).name]
    phases = phases_of(network)
    if record.exists() and (kept := json.loads(record.read_text()))["of"] == key:
        theirs = {phase: Batch(counters) for phase, counters in kept["counters"].items()}
    else:
        theirs = measured(network, module, phases)
        counters = {phase: batch.counters for phase, batch in theirs.items()}
        WORK.mkdir(parents=True, exist_ok=True)
        write_atomically(record, json.dumps({"of": key, "counters": counters}).encode())
    ours = estimated(network, phases)
    return [
        {"variant": config.variant, "network": name, "phase": phase, **compared(ours[phase].counters, batch.counters)}
        for phase, batch in theirs.items()
    ]  # fmt: skip


def errors(rows: Iterable[Mapping[str, Any]], name: str) -> list[float]:
    """Magnitudes of the errors of a counter, ascending; those of nothing that is nothing are 0."""
    found = []
    for row in rows:
        ours, theirs = row[f"estimated_{name}"], row[f"simulated_{name}"]
        found.append(abs(ours / theirs - 1) if theirs else float(ours > 0))
    return sorted(found)


def figures(rows: list[dict], of: str) -> dict[str, float | int]:
    """The figures of rows, whose names end with ``of``."""
    cycles = errors(rows, "cycles")
    return {
        f"{of}": len(rows), f"error_median_{of}": round(float(np.median(cycles)), 5),
        f"error_p90_{of}": round(float(np.quantile(cycles, 0.9)), 5), f"error_worst_{of}": round(cycles[-1], 5),
        f"read_error_{of}": round(errors(rows, "read_bytes")[-1], 6),
        f"write_error_{of}": round(errors(rows, "write_bytes")[-1], 6),
    }  # fmt: skip


def main(arguments: Iterable[str] | None = None) -> None:
    """Entry point of ``nox -s bench_estimate``."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=("commands", "batches"), default=("commands", "batches"))
    parser.add_argument("--networks", nargs="+", choices=tuple(MODELS), default=BATCHES_OF, metavar="NAME",
                        help=f"for batches: of {', '.join(MODELS)} (default: {', '.join(BATCHES_OF)})")  # fmt: skip
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=VARIANTS, help="(default: all)")
    parser.add_argument("--preset", choices=PRESETS, default="ecp5", help="size of the machine (default: %(default)s)")
    parser.add_argument("--switched", action="store_true",
                        help="build all that switches add, as batch norm, for the commands that need them")  # fmt: skip
    parser.add_argument("--draw", action="store_true", help="only draw the commands anew")
    parser.add_argument("--each", type=at_least_one, help="commands a network (default: 5, switched: 10)")
    parser.add_argument("--samples", type=Path, help="the drawn commands (default: the bench's own)")
    parser.add_argument("--json", type=writable, default=FOLDER / "estimate.json", metavar="PATH")
    given = parser.parse_args(None if arguments is None else list(arguments))
    configs = {variant: design(given.preset, variant, given.switched) for variant in given.variants}
    samples = given.samples or SAMPLES[given.switched]
    if given.draw:
        draw(samples, configs, given.each or DRAWN[given.switched].each, given.switched)
        return
    source = commit()
    for part in given.parts:
        rows: list[dict] = []
        for variant, config in configs.items():
            if part == "commands":
                try:
                    rows += commands(config, read_samples(samples, config))
                except (ValueError, OSError) as error:
                    parser.error(str(error))
            else:
                for name in given.networks:
                    rows += batches(config, name)
                    print(
                        *(_told(row) for row in rows if (row["network"], row["variant"]) == (name, variant)), sep="\n"
                    )
        of = f"{part}_{given.preset}{'_switched' * given.switched}"
        found = figures(rows, of)
        seed = DRAWN[given.switched].seed if part == "commands" else SEED
        origin = provenance(COMMAND, preset(given.preset), seed, source, *[SWITCHED] * given.switched)
        merge_results(Path(given.json), of, found, rows, origin)
        for figure, value in found.items():
            print(f"{figure}: {value}", flush=True)


def _told(row: Mapping[str, Any]) -> str:
    cycles = row["simulated_cycles"]
    error = 100 * (row["estimated_cycles"] / cycles - 1)
    return f"{row['network']}, {row['variant']}, {row['phase']}: {cycles:,} cycles, error {error:+.2f} %"


if __name__ == "__main__":
    main()
