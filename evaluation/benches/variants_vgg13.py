"""The four designs on whole batches of VGG13, on the simulated RTL: writes ``results/variants_vgg13.json``.

32x32 images, one classifier, no BatchNorm, batch 32, preset ``paper``. Images and labels are drawn at random: cycles
don't depend on them. The golden model runs the first batch, which calibrates, and its state is where all devices begin;
then come a batch of warm-up, two of GP and one of BP in one start without the host, and one more of GP, each up to its
END, when all that it writes is written. The baseline trains one batch. ``hash_equal``: after each start LOW,
Efficient, MAX and the golden model have the same weights, momenta and exponents; the baseline's are those of golden
backpropagation.

``alpha_*``: the predictor's work in a GP batch (forward) and in a BP batch (backward: prediction, errors, its own
gradients, Adam, what judges it), in cycles of whatever unit does it, over the baseline's forward pass; much of it is
hidden by other work. ``overhead_*``: what isn't hidden, and all else by which batches take longer than the
baseline's. ``implied_limit``: speed-up by the paper's schedule over 90 epochs if the predictor were free, from the
baseline's measured ratio of backward to forward; a larger speed-up fails the bench. Between two batches of a start
some 50 cycles pass that no batch is charged with. MAX has PEs of its own for the predictor, which ``utilisation_*``
doesn't count. ``dram_energy_saving``, of MAX, is of the bytes that cross the port
(``evaluation/instruments/energy.py``), by the same
schedule: without activations, refresh and what the DRAM draws when idle, nor what is kept on chip.

A design that is finished is kept in ``build/bench_variants``: a bench that was stopped goes on after the last one.
"""

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from ...gen.files import write_atomically
from ...gen.provenance import commit, provenance
from ...host.console import at_least_one, writable
from ...host.devices.device import Device
from ...host.devices.golden import GoldenDevice
from ...host.devices.simulated import SimDevice
from ...host.training import timeline
from ...host.training.loss import softmax_cross_entropy
from ...host.training.models import build_model
from ...host.training.network import Network
from ...host.training.sources import training_sources
from ...sim.build import library
from ...spec.config import VARIANTS, Config
from ...spec.phases import BP, EVALUATION, GP, PHASE_NAMES, WARMUP
from ...spec.presets import preset
from ...spec.schedule import Entry, Schedule
from ..instruments.results import FOLDER, write_results
from ..instruments.variants import Measured, alpha, directions, figures, predictor_macs, useful

__all__ = ["main"]

COMMAND = "python -m adagp.evaluation.benches.variants_vgg13"
WORK = Path("build/bench_variants")
MODEL, SHAPE, CLASSES, BATCH, SEED = "vgg13", (3, 32, 32), 10, 32, 1
RATES = {"learning_rate": 0.01, "momentum": 0.9, "weight_decay": 5e-4}
PREDICTOR_RATE = 1e-3
SCHEDULE = Schedule(1, 2, (Entry(1, 2, 1),))
STARTS = {True: ((WARMUP,), (GP, GP, BP), (GP,)), False: ((BP,),)}
"""Phases of the batches after the first, by whether there is a predictor."""


def network_of(config: Config) -> tuple[Network, dict]:
    """The network for a design, and its first weights."""
    module = build_model(MODEL, SHAPE, CLASSES, SEED)
    source = "predicted" if config.predicts else None
    return Network(module, SHAPE, BATCH, config, ring_entries=2 + 1, source=source), module.state_dict()


def _data(start: int, count: int) -> tuple[list[np.ndarray], np.ndarray]:
    draw = np.random.default_rng([SEED, start])
    return [draw.random((BATCH, *SHAPE), np.float32) for _ in range(count)], draw.integers(0, CLASSES, BATCH)


def run(network: Network, device: Device, number: int, phases: tuple[int, ...], calibrate: bool = False) -> None:
    """Start number ``number``: its batches, one after the other."""
    images, labels = _data(number, len(phases))
    for entry, x in enumerate(images):
        network.write_input(device, x, entry)
    phase = None if network.config.predicts else phases[0]
    network.start(device, phase, batches=len(phases), calibrate=calibrate)
    device.wait()
    if phases[-1] != GP:
        _, gradient = softmax_cross_entropy(network.read_logits(device), labels)
        network.write_loss_gradient(device, gradient)
        device.resume()
        device.wait()


def _settings(network: Network, device: Device) -> None:
    network.set_hyper(device, *RATES.values())
    if network.config.predicts:
        network.set_adam(device, PREDICTOR_RATE)
        device.set_schedule(SCHEDULE)


def golden(config: Config) -> tuple[Path, list[str]]:
    """State after the first batch, as a file, and the weights' hashes after it and after each start."""
    kind = "predicted" if config.predicts else "plain"
    state, record = WORK / f"golden-{kind}.npz", WORK / f"golden-{kind}.json"
    network, weights = network_of(config)
    key = [network.program.digest, training_sources(), STARTS[config.predicts], RATES, PREDICTOR_RATE]
    if record.exists() and (kept := json.loads(record.read_text()))["of"] == json.loads(json.dumps(key)):
        return state, kept["hashes"]
    print(f"golden model, {kind}", flush=True)
    device = GoldenDevice(config)
    network.load_state(device, weights, SEED)
    _settings(network, device)
    run(network, device, 0, (WARMUP if config.predicts else BP,), calibrate=True)
    WORK.mkdir(parents=True, exist_ok=True)
    with state.open("wb") as file:
        np.savez(file, allow_pickle=False, **network.snapshot(device))
    hashes = [network.weights_hash(device)]
    for number, phases in enumerate(STARTS[config.predicts], 1):
        run(network, device, number, phases)
        hashes.append(network.weights_hash(device))
    write_atomically(record, json.dumps({"of": key, "hashes": hashes}).encode())
    return state, hashes


def measure(variant: str, config: Config) -> dict:
    """A design's batches on the simulated RTL: counters and slices, and whether it did what the golden model does."""
    config = replace(config, variant=variant)
    network, _ = network_of(config)
    record = WORK / f"{config.name}-{variant}.json"
    state, expected = golden(replace(config, variant="low") if config.predicts else config)
    key = [network.program.digest, library(config).name, expected]
    if record.exists() and (kept := json.loads(record.read_text()))["of"] == key:
        return kept
    print(f"{variant}: {len(STARTS[config.predicts])} starts", flush=True)
    device = SimDevice(config, progress=partial(_progress, variant))
    try:
        network.restore(device, dict(np.load(state)))
        _settings(network, device)
        device.reset_counters()
        hashes, counters, slices, first = [network.weights_hash(device)], [], [], 0
        for number, phases in enumerate(STARTS[config.predicts], 1):
            device.record_events()
            run(network, device, number, phases)
            slices += timeline.slices(device.events, network.program, first)
            device.record_events(False)
            first += len(phases)
            hashes.append(network.weights_hash(device))
            print(f"{variant}: {phases} as the golden model: {hashes[-1] == expected[number]}", flush=True)
        if variant == "baseline":
            network.write_input(device, _data(9, 1)[0][0])
            network.start(device, EVALUATION)
            device.wait()
            device.resume()
            device.wait()
        counters = [device.counters(phase) for phase in range(len(PHASE_NAMES))]
    finally:
        device.close()
    done = [phase for phases in STARTS[config.predicts] for phase in phases]
    done += [EVALUATION] if variant == "baseline" else []
    found = {
        "of": key, "hashes": hashes, "hash_equal": hashes == expected,
        "counters": {
            PHASE_NAMES[phase]: {name: value / done.count(phase) for name, value in counters[phase].items()}
            for phase in sorted(set(done))
        },
        "slices": [asdict(s) for s in slices],
    }  # fmt: skip
    write_atomically(record, json.dumps(found).encode())
    return found


def _progress(variant, cycles):
    if cycles % 10_000_000 < 100_000:
        print(f"{variant}: {cycles / 1e6:.0f} million cycles", flush=True)


def main() -> None:
    """Entry point of ``nox -s bench_variants_vgg13``."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--output", type=writable, default=FOLDER / "variants_vgg13.json")
    parser.add_argument("--jobs", type=at_least_one, default=1, help="simulations at once")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=VARIANTS, help="only these, no results then")
    arguments = parser.parse_args()
    source, config = commit(), preset("paper")
    for variant in ("baseline", "low"):
        golden(replace(config, variant=variant))
    with ProcessPoolExecutor(arguments.jobs, get_context("spawn")) as pool:
        jobs = {variant: pool.submit(measure, variant, config) for variant in arguments.variants}
        found = {variant: job.result() for variant, job in jobs.items()}
    if set(found) != set(VARIANTS):
        return
    report(found, config, arguments.output, source)


def report(found: dict[str, dict], config: Config, output: Path, source: str) -> None:
    """Figures and details of all designs; raises ValueError for a speed-up that can't be, and for unequal hashes."""
    designs, units = {}, {}
    forward = found["baseline"]["counters"]["evaluation"]["cycles"]
    for variant, row in found.items():
        chosen = replace(config, variant=variant)
        network, _ = network_of(chosen)
        slices = [timeline.Slice(**s) for s in row["slices"]]
        costs = alpha(slices, network.program, chosen, forward) if chosen.predicts else (0.0, 0.0)
        mine = predictor_macs(network.program, chosen)
        designs[variant] = Measured(variant, config.n_pes, row["counters"], costs, mine, useful(network.compiled))
        used = directions(slices, network.program, config.n_pes)
        units[variant] = {
            "utilisation": used,
            "batches": [{"phase": s.phase, "cycles": s.cycles} for s in timeline.batches(slices)],
            "counters": row["counters"], "hash": row["hashes"][-1],
        }  # fmt: skip
    result = figures(designs)
    result |= units["baseline"]["utilisation"]
    result["hash_equal"] = all(row["hash_equal"] for row in found.values())
    write_results(output, result, units, provenance(COMMAND, config, SEED, source))
    for name, value in result.items():
        print(f"{name}: {value}")
    if not result["hash_equal"]:
        raise ValueError("a design hasn't the weights of the golden model")


if __name__ == "__main__":
    main()
