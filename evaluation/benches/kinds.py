"""Cycles of a BP batch by kind of operator, on the simulated RTL: goes on with ``results/kinds.json``.

ResNet50 and MobileNet-V2 train at 32x32 on preset ``paper`` with all that its switches can build. The golden model runs
the batch before, which calibrates. A command's cycles begin when the one before it in the compute queue is complete, or
when its own first unit begins, if that is later; they end when the last of its units does. So the cycles of all
commands never overlap. ``share_*`` are kinds' parts of all cycles in which the batch ran; ``share_waiting`` is the
rest, in which no compute command was under way: updates that nothing hides, and the program's begin and end.
``gemm_of_bound`` is the tile bound of all GEMMs over the cycles that they take here, with their waits for memory.

A network that is finished is in the results. The paper's networks need the extra ``models``.
"""

import argparse
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ...gen.generated import generated
from ...gen.hardware_digest import text_digest
from ...gen.provenance import SWITCHED, commit, provenance
from ...host.console import at_least_one, writable
from ...host.devices.golden import GoldenDevice
from ...host.devices.simulated import SimDevice
from ...host.program import Program
from ...host.training.models import MODELS, build_model
from ...host.training.network import Network
from ...host.training.timeline import Slice, slices
from ...spec.commands import CMode, Command, Opcode
from ...spec.config import Config
from ...spec.opcodes import GEMMS
from ...spec.phases import BP, WARMUP
from ...spec.presets import PRESETS, preset
from ..instruments.results import FOLDER, merge_results
from ..instruments.single_command import bound
from .models import CHANNELS, CLASSES, RATES, SEED, config_of, run

__all__ = ["figures", "kind_of", "main", "spans"]

COMMAND = "python -m adagp.evaluation.benches.kinds"
NETWORKS = ("mobilenet-v2", "resnet50")
SIDE, BATCH = 32, 8


def kind_of(command: Command) -> str:
    """The kind of operator that a compute command is part of."""
    name = command.opcode.name.lower()
    for prefix in ("depthwise", "norm", "maxpool"):
        if name.startswith(prefix):
            return prefix
    if command.opcode in GEMMS:
        return "strided_" * (command.stride > 1) + name
    if command.opcode == Opcode.AVGPOOL and command.momentum:
        return "dropout"
    if name.startswith("avgpool"):
        plain = command.r * command.s == 1
        return "avgpool" if not plain else "add" if command.c_mode != CMode.NONE else "copy"
    return name


def spans(found: Iterable[Slice]) -> dict[int, int]:
    """Cycles of each command of the compute queue by its index, as the bench counts them."""
    units: dict[int, list[Slice]] = defaultdict(list)
    for part in found:
        if part.unit not in ("batch", "update") and not part.dry:
            units[part.command].append(part)
    taken, before = {}, 0
    for command in sorted(units):
        begin, end = min(s.begin for s in units[command]), max(s.end for s in units[command])
        taken[command] = max(0, end - max(begin, before))
        before = max(before, end)
    return taken


def figures(program: Program, taken: dict[int, int], cycles: int, config: Config) -> dict[str, int | float]:
    """The figures of a batch of ``cycles`` in which commands took ``taken``."""
    sums: Counter[str] = Counter()
    least = of_gemms = 0
    for index, span in taken.items():
        command = program[index].command
        sums[kind_of(command)] += span
        if command.opcode in GEMMS:
            least, of_gemms = least + bound(command, config), of_gemms + span
    found: dict[str, int | float] = {"cycles": cycles}
    for kind, span in [*sums.most_common(), ("waiting", cycles - sums.total())]:
        found |= {f"cycles_{kind}": span, f"share_{kind}": round(span / cycles, 5)}
    return {**found, "gemm_of_bound": round(least / of_gemms, 5)}


def measure(name: str, config: Config, batch: int) -> tuple[dict, dict]:
    """The figures of a network in batches of ``batch`` images, and its details."""
    shape = (CHANNELS, SIDE, SIDE)
    if name in MODELS:
        module = build_model(name, shape, CLASSES, SEED)
    else:
        from ...experiments.networks.models import build  # needs torchvision or timm

        module = build(name, CLASSES, SIDE, SEED)
    network = Network(module, shape, batch, config)
    began = time.perf_counter()
    golden = GoldenDevice(config)
    network.load_state(golden, module.state_dict(), SEED)
    network.set_hyper(golden, *RATES.values())
    run(network, golden, 0, WARMUP, calibrate=True)
    device = SimDevice(config)
    try:
        network.restore(device, network.snapshot(golden))
        network.set_hyper(device, *RATES.values())
        device.reset_counters()
        device.record_events()
        run(network, device, 1, BP)
        events, counters = np.array(device.events), device.counters(BP)
    finally:
        device.close()
    found = figures(network.program, spans(slices(events, network.program)), counters["cycles"], config)
    details = {
        "batch": batch, "image": list(shape), "commands": len(network.program),
        "hardware": text_digest(generated(config).read_text()), "config_hash": f"{config.config_hash:08x}",
        "counters": counters, "seconds": round(time.perf_counter() - began, 1),
    }  # fmt: skip
    return {f"{key}_{name.replace('-', '_')}": value for key, value in found.items()}, details


def main(arguments: Iterable[str] | None = None) -> None:
    """Entry point of ``nox -s bench_kinds``."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=NETWORKS, metavar="NAME",
                        help=f"the paper's names, or {', '.join(MODELS)} (default: {', '.join(NETWORKS)})")  # fmt: skip
    parser.add_argument("--batch", type=at_least_one, default=BATCH, help="images a batch (default: %(default)s)")
    parser.add_argument("--preset", choices=PRESETS, default="paper", help="size of the machine (default: %(default)s)")
    parser.add_argument("--json", type=writable, default=FOLDER / "kinds.json", metavar="PATH")
    given = parser.parse_args(None if arguments is None else list(arguments))
    config, source = config_of(given.preset, "baseline"), commit()
    for name in given.networks:
        found, details = measure(name, config, given.batch)
        merge_results(
            Path(given.json), name, found, details, provenance(COMMAND, preset(given.preset), SEED, source, SWITCHED)
        )
        for figure, value in found.items():
            print(f"{figure}: {value}", flush=True)


if __name__ == "__main__":
    main()
