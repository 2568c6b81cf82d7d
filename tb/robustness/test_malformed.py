"""Malformed commands and random networks: a sample of what the campaigns run at full size."""

from collections import Counter
from random import Random

import pytest
from adagp.spec.commands import Command, Opcode
from adagp.spec.presets import preset

from robustness.campaign import random_numbers
from robustness.malform import neighbours, spoilt
from robustness.malformed import Malformed, shares
from robustness.networks import Networks

pytestmark = pytest.mark.timeout(900)  # the simulator may have to be built first

SEED = 2
N_COMMANDS = 300
N_NETWORKS = 20
N_PROGRAMS = 200
MEMORY = 1 << 15


def outcomes(case, name, count):
    print(f"seed {SEED}")
    found = Counter(case(index, random_numbers(SEED, name, index)) for index in range(count))
    print(dict(found))
    return found


def test_malformed_commands():
    found = outcomes(Malformed(), "random_commands", N_COMMANDS)
    share = shares(found)
    assert share["share_executed"] >= 0.15 and share["share_compared_exactly"] >= 0.5
    assert share["share_executed_behind"] > 0
    assert {"BAD_GEOMETRY", "BAD_TILE", "BAD_WAIT", "BAD_TENSOR", "WRITE_REGION", "READ_FAULT"} <= set(found)
    assert found.total() == N_COMMANDS > 0


def test_spoilt_commands_differ_and_some_do_not_wait():
    print(f"seed {SEED}")
    config, draw, seen, two, free = preset("tiny"), Random(SEED), 0, 0, 0
    for _ in range(N_PROGRAMS):
        program, places = neighbours(config, draw, MEMORY)
        commands = [Command.decode(words) for words in program]
        works = [command for command in commands if Opcode.FORWARD <= command.opcode <= Opcode.UPDATE]
        two += len(places) > 1
        free += any(command.wait_main + command.wait_update < index for index, command in enumerate(works))
        for place in places:
            assert spoilt(config, program[place], draw) != program[place]
            seen += 1
    assert seen >= N_PROGRAMS and two >= 0.05 * N_PROGRAMS and free >= 0.25 * N_PROGRAMS


def test_only_work_passes_decode():
    found = shares({"executed, in part": 5, "BAD_GEOMETRY": 2, "skipped": 1, "END": 1, "BAD_WAIT": 1})
    assert found["share_passing_decode"] == 0.7 and found["share_executed"] == 0.5
    with pytest.raises(AssertionError, match="only 40%"):
        shares({"executed": 4, "skipped": 2, "COMMIT": 2, "BAD_TENSOR": 2})


def test_random_networks():
    found = outcomes(Networks(shares={"tiny": 1.0}), "random_networks", N_NETWORKS)
    assert found["equal on tiny"] >= N_NETWORKS * 3 // 4
    assert found.total() == N_NETWORKS > 0
