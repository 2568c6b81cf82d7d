"""Predictions that wait for the main array's next layers, in batches that stop for the host."""

import numpy as np
import torch
from adagp.evaluation.benches.predictor_stops import UNITS, stops
from adagp.host.devices.golden import GoldenDevice
from adagp.host.training.network import Network
from adagp.spec.commands import Opcode, Phase
from adagp.spec.phases import GP, WARMUP
from batches import train_batch
from hand_islands import NormReLU
from predicted_networks import set_adam
from scheduled_runs import config_of

SEED, BATCH, IMAGE, CLASSES = 3, 8, (2, 4, 4), 3


def network_of(later, variant="max"):
    torch.manual_seed(SEED)
    module = NormReLU(IMAGE[0], CLASSES)
    return module, Network(module, IMAGE, BATCH, config_of(variant), source="predicted", later=later)


def commands(network):
    """Layers' numbers of GP's forward passes, predictions and updates, and None for a stop."""
    found = []
    for command in (line.command for line in network.program):
        if command.phase_mask & Phase.GP and command.opcode in (Opcode.HOST, Opcode.FORWARD, Opcode.UPDATE):
            what = {Opcode.HOST: "stop", Opcode.UPDATE: "update"}.get(command.opcode)
            found.append((what or ("predict" if command.predictor else "forward"), command.layer))
    return found


def test_a_layer_before_a_stop_is_predicted_after_the_next_forward_pass():
    at_once, later = (commands(network_of(each)[1]) for each in (False, True))
    assert sorted(at_once) == sorted(later) and len(later) == 9
    first, second = (layer for what, layer in later if what == "forward")
    predicted = [("predict", first), ("predict", first), ("update", first)]
    stop = [each for each in later if each[0] == "stop"]
    assert at_once[:5] == [("forward", first), *predicted, *stop]
    assert later[:6] == [("forward", first), *stop, ("forward", second), *predicted]


def test_a_design_with_one_array_predicts_at_once():
    at_once, later = (commands(network_of(each, "efficient")[1]) for each in (False, True))
    assert at_once == later


def test_the_order_changes_no_bit():
    draw, found = np.random.default_rng(SEED), []
    images, labels = draw.uniform(-1, 1, (BATCH, *IMAGE)), np.arange(BATCH) % CLASSES
    for later in (False, True):
        module, network = network_of(later)
        device = GoldenDevice(network.config, 1 << 20)
        network.load_state(device, module.state_dict(), SEED)
        network.set_hyper(device, 0.05, 0.9, 0.0)
        set_adam(device)
        train_batch(network, device, images, labels, calibrate=True, phase=WARMUP)
        before = network.state_dict(device)
        for _ in range(2):
            train_batch(network, device, images, labels, phase=GP)
        found.append(network.state_dict(device))
    compared = 0
    for name, value in found[0].items():
        np.testing.assert_array_equal(value, found[1][name], name)
        compared += bool((np.asarray(value) != np.asarray(before[name])).any())
    assert compared >= 2  # weights have moved


def test_waits_at_stops_are_all_cycles():
    found = {later: stops(network_of(later)[1]) for later in (False, True)}
    for each in found.values():
        assert each["stops"] == 1
        assert sum(each[unit] for unit in (*UNITS, "rest")) == each["cycles"] > 0
    assert found[False]["update"] + found[False]["predictor"] > 0
    assert found[True]["cycles"] < found[False]["cycles"]
