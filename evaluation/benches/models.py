"""The paper's networks on the simulated RTL and on the golden model, bit for bit: writes ``results/models.json``.

Each network has its full width, in the form for small images (``experiments/networks/cnns.py``), and two images a
batch, drawn at random. The golden model runs the first batch, which calibrates; its state is where all devices begin.
Then come a batch of BP and, where gradients are predicted, one of GP. ``hash_equal_*``: after each the simulated
machine and the golden model have the same weights, momenta, exponents and state of host islands. Needs the extra
``models``.

A network that is finished is kept in ``build/bench_models``: a bench that was stopped goes on after the last one.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from ...experiments.networks.models import CNNS, build
from ...gen.files import write_atomically
from ...gen.provenance import commit, provenance
from ...host.console import writable
from ...host.devices.device import Device
from ...host.devices.golden import GoldenDevice
from ...host.devices.simulated import SimDevice
from ...host.training.loss import softmax_cross_entropy
from ...host.training.network import Network
from ...host.training.sources import training_sources
from ...sim.build import library
from ...spec.config import Config
from ...spec.phases import BP, GP, PHASE_NAMES, WARMUP
from ...spec.presets import preset
from ..instruments.results import FOLDER, write_results

__all__ = ["DESIGNS", "figures", "main"]

COMMAND = "python -m adagp.evaluation.benches.models"
WORK = Path("build/bench_models")
SHAPE, CLASSES, BATCH, SEED = (3, 32, 32), 10, 2, 1
RATES = {"learning_rate": 0.01, "momentum": 0.9, "weight_decay": 5e-4}
PREDICTOR_RATE = 1e-3
DESIGNS = {"baseline": (BP,), "max": (BP, GP)}
"""Phases of the batches after the first, by variant."""
N_TENSORS, N_FILTERS = 4096, 2048
"""The preset is enlarged to these for the largest of the networks."""


def network_of(name: str, config: Config) -> tuple[Network, dict]:
    """A network for a design, and its first weights."""
    module = build(name, CLASSES, SHAPE[1], SEED)
    source = "predicted" if config.predicts else None
    return Network(module, SHAPE, BATCH, config, source=source), module.state_dict()


def run(network: Network, device: Device, number: int, phase: int, calibrate: bool = False) -> None:
    """Run batch ``number`` of a phase."""
    draw = np.random.default_rng([SEED, number])
    images, labels = draw.random((BATCH, *SHAPE), np.float32), draw.integers(0, CLASSES, BATCH)
    network.write_input(device, images)
    network.start(device, phase, calibrate=calibrate)
    network.wait(device)
    if phase != GP:
        _, gradient = softmax_cross_entropy(network.read_logits(device), labels)
        network.write_loss_gradient(device, gradient)
        device.resume()
        network.wait(device)


def _settings(network: Network, device: Device) -> None:
    network.set_hyper(device, *RATES.values())
    if network.config.predicts:
        network.set_adam(device, PREDICTOR_RATE)


def measure(name: str, variant: str, config: Config, say: Callable[[str], None]) -> dict:
    """A network's batches on both devices: whether their hashes are equal, cycles and seconds by phase."""
    network, weights = network_of(name, config)
    phases = DESIGNS[variant]
    record = WORK / f"{config.name}-{variant}-{name}.json"
    key = [network.program.digest, library(config).name, training_sources(), list(phases), list(RATES.values())]
    if record.exists() and (kept := json.loads(record.read_text()))["of"] == key:
        return kept
    devices: dict[str, Device] = {"golden": GoldenDevice(config)}
    network.load_state(devices["golden"], weights, SEED)
    _settings(network, devices["golden"])
    began = time.perf_counter()
    run(network, devices["golden"], 0, WARMUP, calibrate=True)
    say(f"{name}, {variant}: calibrated in {time.perf_counter() - began:.0f} s")
    state = network.snapshot(devices["golden"])
    devices["sim"] = SimDevice(config)
    found: dict = {"of": key, "commands": len(network.program), "batches": {}}
    hashes: dict[str, list[str]] = {}
    try:
        for kind, device in devices.items():
            network.restore(device, state)  # which also puts host islands where the first batch left them
            _settings(network, device)
            device.reset_counters()
            hashes[kind] = []
            for number, phase in enumerate(phases, 1):
                began = time.perf_counter()
                run(network, device, number, phase)
                seconds = time.perf_counter() - began
                hashes[kind].append(network.weights_hash(device))
                batch = found["batches"].setdefault(PHASE_NAMES[phase], {})
                batch[f"{kind}_seconds"] = round(seconds, 1)
                if kind == "sim":
                    batch["equal"] = hashes["sim"][-1] == hashes["golden"][number - 1]
                    batch |= {part: device.counters(phase)[part] for part in ("cycles", "macs")}
                say(f"{name}, {variant}, {kind}: batch of {PHASE_NAMES[phase]} in {seconds:.0f} s")
    finally:
        for device in devices.values():
            device.close()
    WORK.mkdir(parents=True, exist_ok=True)
    write_atomically(record, json.dumps(found).encode())
    return found


def figures(records: Mapping[str, Mapping[str, Mapping]]) -> dict[str, bool | int]:
    """Equality by network and phase, over all designs, and how many networks have it; ``records`` by name, variant."""
    found: dict[str, bool | int] = {}
    for name, variants in records.items():
        for phase in ("bp", "gp"):
            equal = [record["batches"][phase]["equal"] for record in variants.values() if phase in record["batches"]]
            if equal:
                found[f"hash_equal_{phase}_{name.replace('-', '_')}"] = all(equal)
    for phase in ("bp", "gp"):
        found[f"networks_equal_{phase}"] = sum(
            value for key, value in found.items() if key.startswith(f"hash_equal_{phase}_")
        )
    return found


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the bench."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=CNNS, default=CNNS, help="some of the networks only")
    parser.add_argument("--variants", nargs="+", choices=tuple(DESIGNS), default=tuple(DESIGNS))
    parser.add_argument("--preset", default="paper", help="size of the machine (default: paper)")
    parser.add_argument("--json", type=writable, default=FOLDER / "models.json", metavar="PATH")
    given = parser.parse_args(None if arguments is None else list(arguments))
    begun = commit()
    base = replace(preset(given.preset), n_tensors=N_TENSORS, n_filters=N_FILTERS)
    records: dict[str, dict[str, dict]] = {}
    for name in given.networks:
        for variant in given.variants:
            config = replace(base, variant=variant)
            records.setdefault(name, {})[variant] = measure(name, variant, config, lambda text: print(text, flush=True))
    write_results(given.json, figures(records), records, provenance(COMMAND, base, SEED, begun))
    unequal = [key for key, value in figures(records).items() if value is False]
    if unequal:
        raise SystemExit(f"not equal: {', '.join(unequal)}")


if __name__ == "__main__":
    main()
