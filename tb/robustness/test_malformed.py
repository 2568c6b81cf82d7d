"""Malformed commands and random networks: a sample of what the campaigns run at full size."""

from collections import Counter

import pytest

from robustness.campaign import random_numbers
from robustness.malformed import Malformed, shares
from robustness.networks import Networks

pytestmark = pytest.mark.timeout(900)  # the simulator may have to be built first

SEED = 2
N_COMMANDS = 300
N_NETWORKS = 20


def outcomes(case, name, count):
    print(f"seed {SEED}")
    found = Counter(case(index, random_numbers(SEED, name, index)) for index in range(count))
    print(dict(found))
    return found


def test_malformed_commands():
    found = outcomes(Malformed(), "random_commands", N_COMMANDS)
    assert shares(found)["share_executed"] >= 0.15
    assert {"BAD_GEOMETRY", "BAD_TILE", "BAD_WAIT", "BAD_TENSOR", "WRITE_REGION", "READ_FAULT"} <= set(found)
    assert found.total() == N_COMMANDS > 0


def test_random_networks():
    found = outcomes(Networks(shares={"tiny": 1.0}), "random_networks", N_NETWORKS)
    assert found["equal on tiny"] >= N_NETWORKS * 3 // 4
    assert found.total() == N_NETWORKS > 0
