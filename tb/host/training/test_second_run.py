"""A run depends on nothing that an earlier run left on the device."""

import contextlib

import numpy as np
import pytest
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from scheduled_runs import MEMORY, SEED, Run, settings

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

COMPARED = "position", "adam_powers", "scales", "exponents", "batches", "loss", "counters", "hash"
"""Parts of the state after each start that must be equal; activations hold bytes that no command has written yet."""
CASES = {
    "predicted": ("max", {}),
    "gated": ("efficient", {"gate": 0.05}),
    "random": ("low", {"gradient_source": "random"}),
    "mean": ("max", {"gradient_source": "mean"}),
    "last": ("max", {"gradient_source": "last"}),
    "true": ("baseline", {}),
}


def chosen(case, network="linear", **more):
    variant, changes = CASES[case]
    return settings(network, variant=variant, **changes, **more)


def trained(device, case):
    """State after each start of a whole run, its numbers of batches, and the hash it ended with."""
    run = Run("linear", device, chosen(case))
    found = [{name: state[name] for name in COMPARED if name in state} for state in run.go()]
    return found, run.trainer.progress.batches, run.network.weights_hash(device)


def spoil(device, case):
    """Train another network for fewer epochs, then put random bytes and values wherever they can be."""
    rng = np.random.default_rng(SEED)
    Run("narrow", device, chosen(case, "narrow", epochs=2)).go()
    device.write(0, rng.integers(0, 256, MEMORY, np.uint8))
    for tensor in range(device.config.n_tensors):
        device.set_exponents(tensor, *rng.integers(-128, 128, 2).tolist())
    for index in range(device.config.n_hyper):
        device.set_hyper(index, int(rng.integers(1 << 16)), int(rng.integers(-128, 128)))
    device.set_regions([(0, 64)])
    device.set_ring(64, 128, 3, 2)


def same(first, second):
    assert first[1:] == second[1:]
    assert len(first[0]) == len(second[0]) > 0
    for number, (a, b) in enumerate(zip(first[0], second[0], strict=True)):
        assert a.keys() == b.keys()
        for name in a:
            assert np.array_equal(a[name], b[name]), f"start {number}: {name}"


@pytest.mark.parametrize(("make", "case"), [
    *((GoldenDevice, case) for case in CASES), *((SimDevice, case) for case in ("predicted", "true")),
])  # fmt: skip
def test_a_second_run_is_the_first(make, case):
    with contextlib.closing(make(chosen(case).config, memory_bytes=MEMORY)) as device:
        first = trained(device, case)
        print(f"batches: {first[1]}")
        if make is GoldenDevice:
            same(first, trained(device, case))
        spoil(device, case)
        same(first, trained(device, case))


def test_no_memory_is_on_chip_without_a_predictor():
    """A network that doesn't predict isn't cut off from the memory where another one had its predictor."""
    with contextlib.closing(SimDevice(chosen("mean").config, memory_bytes=MEMORY)) as device:
        for case, on_chip in (("predicted", True), ("mean", False)):
            Run("linear", device, chosen(case))
            assert bool(device.read_register("PREDICTOR")) is on_chip, case
