"""Published networks on the simulated RTL and on the golden model, bit for bit: goes on with ``results/models.json``.

Each network has its full width, in the form for small images (``experiments/networks/cnns.py``), and two images a
batch, drawn at random: of 16x16 pixels, VGG's of 32x32 and YOLO-v3's of 64x64, so that batch norm has eight values a
channel or more. The Transformer reads and writes sentences of 12 words. The loss is the softmax cross-entropy of all
outputs. The golden model runs the first batch, which calibrates; its state is where both devices begin. The machine has
all that its switches can build. Then come a batch of BP and, where gradients are predicted, one of GP.
``hash_equal_*``: after each the simulated machine and the golden model have the same weights, momenta, exponents and
state of host islands, and others than before. ``device_share_*``, ``cycles_bp_*``: of a BP batch of the baseline
design; ``cycles_gp_*``, ``cycles_bp_max_*``: of batches of MAX. These cycles say no speed-up: a batch of
backpropagation of two images takes MAX longer than the baseline, since its predictor learns as much from two images as
from many. Each row names the commit and the hardware that it is of.

A design of a network that is finished is kept in ``build/bench_models``, and a network that is finished is in the
results: a bench that was stopped goes on after the last one. A network that can't be measured, or whose hashes differ,
doesn't stop the others; the bench fails at its end. The paper's networks need the extra ``models``; smaller ones by
the names of ``adagp train`` don't.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from ...experiments.errors import NetworkError
from ...experiments.networks.models import build
from ...gen.files import write_atomically
from ...gen.generated import generated
from ...gen.hardware_digest import text_digest
from ...gen.provenance import SWITCHED, commit, provenance
from ...host.compiler.costs import costs, share
from ...host.compiler.lowering import LoweringError
from ...host.compiler.mapping import MappingError
from ...host.compiler.memory_plan import PlanError
from ...host.compiler.values import Input
from ...host.console import writable
from ...host.devices.device import Device
from ...host.devices.golden import GoldenDevice
from ...host.devices.simulated import SimDevice
from ...host.training.loss import softmax_cross_entropy
from ...host.training.models import MODELS, build_model
from ...host.training.network import Network
from ...host.training.sources import training_sources
from ...sim.build import library
from ...spec.config import SWITCHES, Config
from ...spec.phases import BP, GP, PHASE_NAMES, WARMUP
from ...spec.presets import PRESETS, preset
from ..instruments.results import FOLDER, merge_results

__all__ = ["DESIGNS", "PAPER", "figures", "main"]

COMMAND = "python -m adagp.evaluation.benches.models"
WORK = Path("build/bench_models")
PAPER = (
    "mobilenet-v2", "vgg13", "densenet121", "vgg16", "resnet50", "densenet169", "inception-v3", "vgg19", "densenet201",
    "transformer", "yolo-v3", "densenet161", "resnet101", "inception-v4", "resnet152",
)  # fmt: skip
"""The paper's networks, those of few cycles first."""
SMALL = tuple(name for name in MODELS if name not in PAPER)
SIDES = {"yolo-v3": 64, "vgg13": 32, "vgg16": 32, "vgg19": 32}
"""Sides of images that aren't of ``SIDE``."""
SENTENCE, WORDS = 12, {"source": 7853, "target": 5893}
"""Words of a sentence; of Multi30k's German and English that occur twice."""
SIDE, CHANNELS, CLASSES, BATCH, SEED = 16, 3, 10, 2, 1
BUILT_FOR = 32
"""Side of the images that the paper's networks are built for; theirs is an adaptive pooling."""
RATES = {"learning_rate": 0.01, "momentum": 0.9, "weight_decay": 5e-4}
PREDICTOR_RATE = 1e-3
DESIGNS = {"baseline": (BP,), "max": (BP, GP)}
"""Phases of the batches after the first, by variant."""
ENLARGED = {"n_tensors": 4096, "n_filters": 2048}
"""Sizes that the networks need; a preset's are theirs if they are larger."""

Say = Callable[[str], None]


def inputs_of(name: str) -> list[Input]:
    """The arguments of a network."""
    if name == "transformer":
        return [Input((SENTENCE,), words - 1, whole=True) for words in WORDS.values()]
    side = SIDES.get(name, SIDE)
    return [Input((CHANNELS, side, side))]


def module_of(name: str) -> nn.Module:
    """A network by name, with its first weights."""
    if name == "transformer":
        return build(name, WORDS["target"], seed=SEED, source_words=WORDS["source"])
    if name in SMALL:
        return build_model(name, (CHANNELS, SIDE, SIDE), CLASSES, SEED)
    return build(name, CLASSES, max(BUILT_FOR, SIDES.get(name, SIDE)), SEED)


def config_of(name: str, variant: str) -> Config:
    """The design of a preset that the networks fit, with all that its switches build."""
    base = preset(name)
    fields: dict[str, Any] = {field: max(size, getattr(base, field)) for field, size in ENLARGED.items()}
    return replace(base, **fields | dict.fromkeys(SWITCHES, True), variant=variant)


def run(network: Network, device: Device, number: int, phase: int, calibrate: bool = False) -> None:
    """Run batch ``number`` of a phase."""
    draw = np.random.default_rng([SEED, number])
    network.write_input(device, [_drawn(draw, each, network.batch) for each in network.inputs])
    labels = draw.integers(0, CLASSES, network.batch)
    network.start(device, phase, calibrate=calibrate)
    network.wait(device)
    if phase != GP:
        _, gradient = softmax_cross_entropy(network.read_logits(device), labels)
        network.write_loss_gradient(device, gradient)
        device.resume()
        network.wait(device)


def _drawn(draw: np.random.Generator, argument: Input, batch: int) -> np.ndarray:
    shape = (batch, *argument.shape)
    return draw.integers(1, int(argument.largest) + 1, shape) if argument.whole else draw.random(shape, np.float32)


def _settings(network: Network, device: Device) -> None:
    network.set_hyper(device, *RATES.values())
    if network.config.predicts:
        network.set_adam(device, PREDICTOR_RATE)


def measure(name: str, config: Config, source: str, say: Say) -> dict:
    """A network's batches on both devices of a design: whether their hashes are equal, cycles and seconds by phase."""
    module = module_of(name)
    network = Network(module, inputs_of(name), BATCH, config, source="predicted" if config.predicts else None)
    record = WORK / f"{config.name}-{config.variant}-{name}.json"
    key = [network.program.digest, library(config).name, training_sources(), *RATES.values(), PREDICTOR_RATE]
    if record.exists() and (kept := json.loads(record.read_text()))["of"] == key:
        return kept
    found = {"of": key, **_about(network, module, config), "commit": source}
    found["batches"] = _batches(network, module, partial(_tell, say, f"{name}, {config.variant}"))
    WORK.mkdir(parents=True, exist_ok=True)
    write_atomically(record, json.dumps(found).encode())
    return found


def _about(network: Network, module: nn.Module, config: Config) -> dict:
    """A design and the part of a network that it computes."""
    of_device = share(costs(network.compiled, module.state_dict()))
    operators = Counter(each for island in of_device.host_operators.values() for each in island)
    return {
        "config": {
            "preset": config.name, "variant": config.variant, "hash": f"{config.config_hash:08x}",
            "switches": [switch for switch in SWITCHES if getattr(config, switch)],
        },
        "hardware": text_digest(generated(config).read_text()), "inputs": [list(each.shape) for each in network.inputs],
        "batch": network.batch, "commands": len(network.program),
        "device_share_of_macs": round(of_device.device_share_of_macs, 5),
        "device_share_of_bytes": round(of_device.device_share_of_bytes, 5),
        "islands": len(of_device.host_operators), "host_operators": dict(operators.most_common()),
    }  # fmt: skip


def _tell(say: Say, of: str, text: str) -> None:
    say(f"{of}: {text}")


def _batches(network: Network, module: nn.Module, say: Say) -> dict[str, dict]:
    """The batches of a design, golden model first."""
    config, phases = network.config, DESIGNS[network.config.variant]
    found: dict[str, dict] = {PHASE_NAMES[phase]: {} for phase in phases}
    first = GoldenDevice(config)
    network.load_state(first, module.state_dict(), SEED)
    _settings(network, first)
    run(network, first, 0, WARMUP, calibrate=True)
    state, before = network.snapshot(first), network.weights_hash(first)
    say("calibrated")
    hashes: dict[str, list[str]] = {}
    for kind, device in (("golden", first), ("sim", SimDevice(config))):
        try:
            network.restore(device, state)  # which also puts host islands where the first batch left them
            _settings(network, device)
            device.reset_counters()
            hashes[kind] = [before]
            for number, phase in enumerate(phases, 1):
                began, name = time.perf_counter(), PHASE_NAMES[phase]
                run(network, device, number, phase)
                seconds = time.perf_counter() - began
                hashes[kind].append(network.weights_hash(device))
                found[name][f"{kind}_seconds"] = round(seconds, 1)
                say(f"batch of {name} on {kind} in {seconds:.0f} s")
                if kind == "sim":
                    found[name] |= {part: device.counters(phase)[part] for part in ("cycles", "macs")}
        finally:
            device.close()
    for number, phase in enumerate(phases, 1):
        golden, sim = hashes["golden"], hashes["sim"]
        found[PHASE_NAMES[phase]]["equal"] = sim[number] == golden[number] != golden[number - 1]
    return found


def figures(name: str, rows: Mapping[str, Mapping]) -> dict[str, bool | int | float]:
    """The figures of a network from its rows by variant."""
    found: dict[str, bool | int | float] = {}
    for phase in ("bp", "gp"):
        found[f"hash_equal_{phase}"] = all(
            row["batches"][phase]["equal"] for row in rows.values() if phase in row["batches"]
        )
    found |= {part: rows["baseline"][part] for part in ("device_share_of_macs", "device_share_of_bytes")}
    found["cycles_bp"] = rows["baseline"]["batches"]["bp"]["cycles"]
    found["cycles_gp"] = rows["max"]["batches"]["gp"]["cycles"]
    found["cycles_bp_max"] = rows["max"]["batches"]["bp"]["cycles"]
    return {f"{key}_{name.replace('-', '_')}": value for key, value in found.items()}


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the bench."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=(*PAPER, *SMALL), default=PAPER, metavar="NAME",
                        help=f"of {', '.join(PAPER)} (default: all of these), {', '.join(SMALL)}")  # fmt: skip
    parser.add_argument("--preset", choices=PRESETS, default="paper", help="size of the machine (default: %(default)s)")
    parser.add_argument("--json", type=writable, default=FOLDER / "models.json", metavar="PATH")
    given = parser.parse_args(None if arguments is None else list(arguments))
    source, mistakes = commit(), []
    for name in given.networks:
        try:
            rows = {
                variant: measure(name, config_of(given.preset, variant), source, partial(print, flush=True))
                for variant in DESIGNS
            }
        except (NetworkError, LoweringError, MappingError, PlanError) as error:
            mistakes.append(f"{name}: {error}")
            print(mistakes[-1], flush=True)
            continue
        found = figures(name, rows)
        shown = {variant: {key: value for key, value in row.items() if key != "of"} for variant, row in rows.items()}
        merge_results(given.json, name, found, shown, provenance(COMMAND, preset(given.preset), SEED, source, SWITCHED))
        mistakes += [f"{key}: the simulated RTL ends with other bits" for key, value in found.items() if value is False]
    if mistakes:
        raise SystemExit("\n".join(mistakes))


if __name__ == "__main__":
    main()
