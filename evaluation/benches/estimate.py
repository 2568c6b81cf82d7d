"""The estimator against the simulated RTL: goes on with ``results/estimate.json``.

``commands``: single commands of the networks' batches, of which each stratum gives a few, drawn with a seed that
nothing was tuned on. A stratum is a kind of command in a variant. Commands that would take more than ``MOST`` cycles
by the estimate are left out. ``batches``: whole batches of each variant, warm-up, BP and GP. ``error_*`` are
magnitudes of estimated over simulated cycles less 1: median, 90th percentile, worst; ``read_error_*``,
``write_error_*`` those of DRAM bytes, the worst.

Each measurement is kept in ``build/bench_estimate``: a bench that was stopped goes on after the last one.
"""

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from ...gen.files import write_atomically
from ...gen.provenance import SWITCHED, commit, provenance
from ...host.console import at_least_one, writable
from ...host.devices.estimator import EstimatorDevice
from ...host.program import Line, Program
from ...host.training.models import MODELS, build_model
from ...host.training.network import Network
from ...sim.build import library
from ...spec.commands import Command, Phase
from ...spec.config import VARIANTS, Config
from ...spec.opcodes import COMPUTE, UPDATES
from ...spec.phases import PHASE_NAMES, WARMUP
from ...spec.presets import PRESETS, preset
from ..instruments.estimates import Batch, estimated, measured, phases_of
from ..instruments.results import FOLDER, merge_results
from ..instruments.single_command import Bench, alone, bars
from .kinds import kind_of
from .models import config_of

__all__ = ["COUNTED", "compared", "drawn", "figures", "main"]

COMMAND = "python -m adagp.evaluation.benches.estimate"
WORK = Path("build/bench_estimate")
COMMANDS_OF = ("vgg-small", "resnet20", "mobilenet-small", "densenet-small")
BATCHES_OF = ("vgg-small", "resnet20", "mobilenet-small")
SHAPE, CLASSES, BATCH, SEED = (3, 16, 16), 10, 4, 20261127
EACH, MOST = 2, 1_000_000
"""Commands of each stratum, and their cycles at most."""
COUNTED = ("cycles", "read_bytes", "write_bytes")


def network_of(name: str, config: Config) -> tuple[nn.Module, Network]:
    """A network and its program for a design."""
    module = build_model(name, SHAPE, CLASSES, SEED)
    return module, Network(module, SHAPE, BATCH, config, source="predicted" if config.predicts else None)


def single(line: Line, network: Network) -> Program:
    """A program of one command, in all phases, which waits for nothing."""
    fields = {**line.command.fields, "phase_mask": int(Phase.ALL)}
    return alone(Line(Command(line.command.opcode, fields), line.name), network)


def estimate(program: Program, network: Network) -> dict[str, int]:
    """The estimated counters of a program."""
    device = EstimatorDevice(network.config)
    network.install(device)
    device.start(program, WARMUP)
    device.wait()
    return device.counters(WARMUP)


def stratum(command: Command) -> str:
    """The kind of a command, by which commands are drawn."""
    name = command.opcode.name.lower()
    if command.opcode in UPDATES or name.startswith(("depthwise", "norm", "maxpool")):
        return name
    return "predictor " * bool(command.predictor) + kind_of(command)


def drawn(networks: Mapping[str, Network], each: int = EACH, most: int = MOST) -> list[tuple[str, int]]:
    """Commands by network and index: ``each`` of every stratum, in an order that depends on the seed alone."""
    strata: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for name, network in networks.items():
        for index, line in enumerate(network.program):
            if line.command.opcode in COMPUTE or line.command.opcode in UPDATES:
                strata[stratum(line.command)].append((name, index))
    chosen = []
    for kind in sorted(strata):
        random.Random(f"{SEED} {kind}").shuffle(strata[kind])
        fit = (
            place for place in strata[kind]
            if estimate(single(networks[place[0]].program[place[1]], networks[place[0]]), networks[place[0]])["cycles"]
            <= most
        )  # fmt: skip
        chosen += [place for place, _ in zip(fit, range(each), strict=False)]
    return chosen


def compared(ours: Mapping[str, int], theirs: Mapping[str, int]) -> dict[str, int]:
    """Estimated and simulated counters of COUNTED beside each other."""
    return {f"{side}_{name}": values[name] for name in COUNTED
            for side, values in (("estimated", ours), ("simulated", theirs))}  # fmt: skip


def commands(config: Config, names: Iterable[str], each: int) -> list[dict]:
    """The drawn commands of a design, estimated and simulated."""
    built = {name: network_of(name, config) for name in names}
    networks = {name: network for name, (_, network) in built.items()}
    rows = []
    with bars() as progress:
        bench = Bench(WORK / f"{config.name}-{config.variant}", config, progress)
        chosen = drawn(networks, each)
        task = progress.add_task(f"commands of {config.variant}", total=len(chosen))
        for name, index in chosen:
            module, network = built[name]
            line = network.program[index]
            theirs = bench(f"{name}-{index}", network, module, config, program := single(line, network))
            rows.append({
                "variant": config.variant, "network": name, "index": index, "layer": line.name,
                "kind": stratum(line.command), **compared(estimate(program, network), theirs),
            })  # fmt: skip
            progress.advance(task)
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
    parser.add_argument("--networks", nargs="+", choices=tuple(MODELS), metavar="NAME",
                        help=f"of {', '.join(MODELS)} (default: several)")  # fmt: skip
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=VARIANTS, help="(default: all)")
    parser.add_argument("--preset", choices=PRESETS, default="paper", help="size of the machine (default: %(default)s)")
    parser.add_argument("--each", type=at_least_one, default=EACH, help="commands a stratum (default: %(default)s)")
    parser.add_argument("--json", type=writable, default=FOLDER / "estimate.json", metavar="PATH")
    given = parser.parse_args(None if arguments is None else list(arguments))
    source = commit()
    for part in given.parts:
        rows: list[dict] = []
        for variant in given.variants:
            config = replace(config_of(given.preset, variant), name=given.preset)
            if part == "commands":
                rows += commands(config, given.networks or COMMANDS_OF, given.each)
            else:
                for name in given.networks or BATCHES_OF:
                    rows += batches(config, name)
                    print(*(_told(row) for row in rows[-len(PHASE_NAMES) :] if row["network"] == name), sep="\n")
        of = f"{part}_{given.preset}"
        found = figures(rows, of)
        merge_results(
            Path(given.json), of, found, rows, provenance(COMMAND, preset(given.preset), SEED, source, SWITCHED)
        )
        for figure, value in found.items():
            print(f"{figure}: {value}", flush=True)


def _told(row: Mapping[str, Any]) -> str:
    cycles = row["simulated_cycles"]
    error = 100 * (row["estimated_cycles"] / cycles - 1)
    return f"{row['network']}, {row['variant']}, {row['phase']}: {cycles:,} cycles, error {error:+.2f} %"


if __name__ == "__main__":
    main()
