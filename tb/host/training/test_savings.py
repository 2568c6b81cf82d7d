"""Savings in the traffic of predictions: a predictor that learns seldom, momentum that GP batches leave as it is."""

from copy import deepcopy
from functools import cache

import numpy as np
import pytest
from adagp.host.compiler.lowering import LoweringError
from adagp.host.training.network import Network
from adagp.host.training.settings import SettingsError, TrainSettings
from adagp.spec.phases import BP
from scheduled_runs import NETWORKS, Run, config_of, differences, golden, settings, simulated

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

NAME = "linear"
BATCHES = [[1, 0, 0], [2, 0, 0], [2, 0, 2], [2, 1, 3], [2, 2, 4]]
"""Batches of warm-up, BP and GP after each start; the third has no batch with true gradients."""
TAUGHT = [0, 3]
"""Starts with a batch that the predictor learns from: the first and the third with true gradients."""


def chosen(**changes):
    usual = {"epochs": 4, "train_images": 2 * 9, "predictor_every": 2, "gp_momentum": "keep"}
    return settings(NAME, **{**usual, **changes})


@cache
def undisturbed():
    return Run(NAME, golden(), chosen()).go()


def changed(start, part):
    """True if the start changed a tensor of that part, by its name's beginning or end."""
    before, after = undisturbed()[start - 1], undisturbed()[start]
    names = [name for name in after if name.startswith(part) or name.endswith(part)]
    assert names
    return any(not np.array_equal(before[name], after[name]) for name in names)


def test_what_batches_change():
    assert [start["batches"] for start in undisturbed()] == BATCHES
    starts = range(1, len(BATCHES))
    assert [start for start in starts if changed(start, "predictor.")] == TAUGHT[1:]
    assert [start for start in starts if not changed(start, ".momentum")] == [2]
    assert all(changed(start, ".weight") and changed(start, ".low") for start in starts)


def test_hardware_equals_golden():
    device = simulated("max", stall=0.2)
    seen = Run(NAME, device, chosen()).go()
    device.close()
    assert differences(undisturbed(), seen) == []


def test_a_run_that_goes_on_counts_on():
    """From the state after the second batch with true gradients and two of GP, where the next one teaches."""
    kept = []

    def keep(run):
        if len(run.seen) == 3:
            kept.append((run.network.snapshot(run.device), deepcopy(run.trainer.progress)))
            raise InterruptedError

    with pytest.raises(InterruptedError):
        Run(NAME, golden(), chosen(), keep).go()
    arrays, progress = kept[0]
    run = Run(NAME, device := golden(), chosen())
    run.network.restore(device, arrays)
    run.trainer.progress = progress
    assert differences(undisturbed()[3:], run.go()) == []


def test_refusals():
    for field, value, rule in (("predictor_every", 0, "at least 1"), ("gp_momentum", "no", "update, keep")):
        with pytest.raises(SettingsError, match=f"{field} = {value!r} must be .*{rule}"):
            chosen(**{field: value})
    unused = TrainSettings(predictor_every=2, gp_momentum="keep").unused
    assert unused == {"variant": ["predictor_every", "gp_momentum"]}
    batch, shape, build = NETWORKS[NAME]
    config, rule = config_of("max"), "takes a predictor, so a source of gradients predicted or random, not zero"
    for options in ({"predictor_every": 2}, {"gp_momentum": "keep"}):
        with pytest.raises(LoweringError, match=rule):
            Network(build(), shape, batch, config, source="zero", **options)
    network = Network(build(), shape, batch, config, source="predicted")
    with pytest.raises(ValueError, match="learns = False takes a network with predictor_every above 1"):
        network.start(golden(), BP, learns=False)
