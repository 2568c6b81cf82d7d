"""The output-stationary array beside today's: writes ``results/output_stationary.json``.

BP batches of the baseline on the estimator, preset ``paper`` with all switches, by dataflow: ``cycles``; the array's
``useful_utilisation``; ``array_share``, cycles in which the array works; ``accumulator``, sums that GEMMs write to the
accumulator and read from it for each product, exact by the tiles' descriptors. Areas by Yosys, ``ws`` for today's
array, which both ``ws`` and ``is`` use: of the array alone, and of the compute engine with its fetchers, feeder and
accumulator (without switches, so the pool unit is small). What is synthesised is kept in the cache.
"""

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...gen.provenance import SWITCHED, commit, provenance
from ...host.compiler.dataflow import DATAFLOWS, OUTPUT_STATIONARY
from ...host.console import screen, writable
from ...host.training.models import build_model
from ...host.training.network import Network
from ...spec.config import SWITCHES
from ...spec.operands import macs
from ...spec.phases import BP
from ...spec.presets import preset
from ...synth import flow
from ...synth.design import Design
from ..instruments.accumulator_words import words_of
from ..instruments.estimates import estimated
from ..instruments.results import FOLDER, write_results
from ..instruments.synthesis import mistakes_in_a_line, progress_of

__all__ = ["AREAS", "NETWORKS", "RESOURCES", "areas", "batches", "main"]

COMMAND = "python -m adagp.evaluation.benches.output_stationary"
PRESET, SHAPE, CLASSES, SEED = "paper", (3, 32, 32), 10, 1
NETWORKS = ("vgg13", "resnet20", "mobilenet-small")
AREAS = {"xilinx": "paper", "ecp5": "ecp5"}
"""Presets by the target that they are synthesised for."""
BLOCKS = ("array", "compute")
RESOURCES = {"xilinx": ("lut", "ff", "dsp48", "lutram"), "ecp5": ("lut", "ff", "multiplier", "dpr16x4")}


def batches(name: str, dataflow: str, size: str, images: int) -> dict[str, float]:
    """Cycles, utilisation and accesses of the accumulator of a network's BP batch in a dataflow."""
    sums = dataflow == OUTPUT_STATIONARY
    switches: dict[str, Any] = dict.fromkeys(SWITCHES, True)
    config = replace(preset(size), **switches, output_stationary=sums)
    network = Network(build_model(name, SHAPE, CLASSES, SEED), SHAPE, images, config, dataflow=dataflow)
    batch = estimated(network, (BP,))["bp"]
    commands = [line.command for line in network.program]
    written, read = words_of(commands, config)
    return {
        "cycles": batch.cycles, "useful_utilisation": round(batch.useful_utilisation, 4),
        "array_share": round(batch.counters["array_cycles"] / batch.cycles, 4),
        "accumulator": round(config.cols * (written + read) / sum(map(macs, commands)), 5),
    }  # fmt: skip


def areas(target: str, size: str) -> Iterator[tuple[str, dict[str, int]]]:
    """Resources of blocks by ``BLOCK_TARGET_ARRAY``."""
    for block in BLOCKS:
        for name in ("ws", OUTPUT_STATIONARY):
            sums = name == OUTPUT_STATIONARY
            config = replace(preset(size), output_stationary=sums, name=f"{size}-{name}")
            with progress_of(screen) as report:
                (found,) = flow.run(target, [Design(config, block)], flow.Options(), report)
            yield f"{block}_{target}_{name}", found["resources"]


def main(arguments: Iterable[str] | None = None) -> None:
    """Entry point of ``nox -s bench_output_stationary``."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("--networks", nargs="+", choices=NETWORKS, default=NETWORKS, help="(default: all)")
    add("--targets", nargs="*", choices=tuple(AREAS), default=tuple(AREAS), help="(default: all)")
    add("--images", type=int, default=32, help="of a batch (default: %(default)s)")
    add("--preset", default=PRESET, help="of the batches (default: %(default)s)")
    add("--json", type=writable, default=FOLDER / "output_stationary.json", metavar="PATH")
    given = parser.parse_args(None if arguments is None else list(arguments))
    source = commit()
    figures: dict[str, float] = {}
    used: dict[str, dict[str, int]] = {}
    with mistakes_in_a_line():
        for name in given.networks:
            for dataflow in DATAFLOWS:
                found = batches(name, dataflow, given.preset, given.images)
                screen.print(f"{name}, {dataflow}: {found}")
                figures |= {f"{what}_{name}_{dataflow}": value for what, value in found.items()}
        for target in given.targets:
            for name, resources in areas(target, AREAS[target]):
                screen.print(f"{name}: {resources}")
                used[name] = resources
                figures |= {f"{what}_{name}": resources[what] for what in RESOURCES[target]}
        origin = provenance(COMMAND, preset(given.preset), SEED, source, SWITCHED)
        for target in given.targets:
            origin["tools"] |= flow.tools(target, False)
        write_results(Path(given.json), figures, {"areas": used, "images": given.images}, origin)


if __name__ == "__main__":
    main()
