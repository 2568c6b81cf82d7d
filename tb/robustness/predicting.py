"""Random networks with predicted gradients, by random schedules of phases: golden model and RTL to the same bits.

Options that spare traffic are drawn too: the predictor learns in some starts alone, GP leaves momentum as it is, and a
design streams predictions.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import torch
from adagp.golden.state import COUNTED
from adagp.host.devices.device import Device
from adagp.host.training.loss import softmax_cross_entropy
from adagp.host.training.network import Network
from adagp.spec.commands import Phase
from adagp.spec.registers import N_PHASES, Status
from adagp.spec.schedule import GP_MOMENTUM, PREDICTING, Entry, Schedule, State, following

from .campaign import PREDICTING_DESIGNS, Kind, configured
from .networks import EVALUATE, random_network
from .outcome_shares import network_shares
from .paired_training import REFUSALS, compared, memory_and_exponents

__all__ = ["PREDICTING_NETWORKS", "PredictingNetworks"]

NAMES = (*PREDICTING_DESIGNS, "tiny max signs", "tiny low signs", "ecp5 efficient", "paper max", "wide max streamed")
SOURCES = ("predicted", "predicted", "predicted", "zero", "last", "mean")
SIGNED_SOURCES = ("random", "random", "random", "predicted", "zero", "last", "mean")
"""Drawn from by designs with random signs."""
GATED = 0.25
"""Share of schedules with a threshold. Few predictions of so short a training reach one."""
STARTS = (1, 3, 2)
"""Batches of each start; the first one calibrates."""
GP = 2
STATE_SEED = 5


class PredictingNetworks:
    """The case function; with ``top`` only the first of ``names``, which it simulates."""

    def __init__(self, top: Path | None = None, names: tuple[str, ...] = NAMES):
        self.top, self.names = top, names[:1] if top else names
        torch.set_num_threads(1)

    def __call__(self, index: int, rng: np.random.Generator) -> str:
        draw = Random(int(rng.integers(1 << 63)))
        name = self.names[index % len(self.names)]
        config = configured(name)
        torch.manual_seed(draw.getrandbits(32))
        module, shape = random_network(draw)
        source = draw.choice(SIGNED_SOURCES if config.random_signs else SOURCES)
        batch = draw.choice((1, 2, 3, 5))
        saving = {"predictor_every": draw.choice((1, 2)), "gp_momentum": draw.choice(GP_MOMENTUM)}
        if source not in PREDICTING:
            saving = {}
        try:
            network = Network(module, shape, batch, config, ring_entries=max(STARTS), source=source, **saving)
        except REFUSALS as error:
            return f"not built: {type(error).__name__}"
        train = partial(_train, network, module.state_dict())
        with compared(network, draw, self.top, train, f"{source}, {saving}, {module}, {shape}") as (golden, device):
            ran_gp, (_, gate_open) = golden.counters(GP)["commands"] > 0, device.position()
        gate = "" if gate_open else ", gate shut"
        return f"equal on {name}, {source}{gate}" + ("" if ran_gp else ", without GP")


def schedule_with_gp(draw: np.random.Generator) -> Schedule:
    """A schedule with at least one GP batch in the batches of STARTS, while the gate is open."""
    while True:
        entries = tuple(Entry(*map(int, draw.integers(0, 3, 3))) for _ in range(draw.integers(1, 4)))
        schedule = Schedule(int(draw.integers(1, 3)), int(draw.integers(1, 3)), entries)
        state, phases = State(), []
        for _ in range(sum(STARTS)):
            phase, state = following(state, schedule)
            phases.append(phase)
        if Phase.GP in phases:
            return schedule


def _threshold(draw: np.random.Generator) -> tuple[int, int] | None:
    """The gate's: a squared cosine from 2^-25 to 1/2, or none."""
    return (1 << 15, int(draw.integers(-40, -15))) if draw.random() < GATED else None


def _train(network: Network, state: dict, device: Device, seed: int) -> Iterator[dict]:
    """Train by a seeded schedule; yields what the host can see after each start, and at the end a checkpoint."""
    rng = np.random.default_rng(seed)
    network.load_state(device, state, STATE_SEED)
    network.set_hyper(device, float(rng.choice((0.5, 0.05, 1e-3))), float(rng.choice((0, 0.9))), 1e-2)
    network.set_adam(device, 1e-2)
    device.set_schedule(schedule_with_gp(rng), _threshold(rng))
    if network.config.random_signs:
        device.set_seed(int(rng.integers(1 << 32)))
    for number, batches in enumerate(STARTS):
        learns = network.compiled.untaught is None or bool(rng.integers(2))
        _run(network, device, rng, batches, None, calibrate=number == 0, learns=learns)
        yield _seen(network, device)
    _run(network, device, rng, 1, EVALUATE)
    yield _seen(network, device)
    yield network.snapshot(device)


def _run(network, device, rng, batches, phase, calibrate=False, learns=True):
    """Batches of one start; the host meets those that want a loss."""
    for entry in range(batches):
        network.write_input(device, rng.uniform(-1, 1, (network.batch, *network.input_shape)), entry)
    network.start(device, phase, batches=batches, calibrate=calibrate, learns=learns)
    labels = rng.integers(0, network.n_outputs, (batches, network.batch))
    met = 0
    while device.wait() & Status.HOST:
        if phase != EVALUATE:
            gradient = softmax_cross_entropy(network.read_logits(device), labels[met])[1]
            network.write_loss_gradient(device, gradient)
        met += 1
        device.resume()
    assert met <= batches


def _seen(network, device):
    seen = memory_and_exponents(network, device)
    if network.config.predictor_on_chip:
        window = network.compiled.window
        seen["memory"] = seen["memory"].copy()
        seen["memory"][window.start : window.stop] = 0
    counters = [device.counters(phase) for phase in range(N_PHASES)]
    return {
        **seen,
        "counters": np.array([[values[name] for name in COUNTED] for values in counters]),
        "position": np.array([str(device.position())]),
    }


PREDICTING_NETWORKS = Kind(
    "random_predicting_networks", PredictingNetworks, 300, "random_predicting_network_mismatches", NAMES,
    network_shares,
)  # fmt: skip
