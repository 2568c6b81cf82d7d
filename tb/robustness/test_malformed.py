"""Malformed commands and random networks: a sample of what the campaigns run at full size."""

from collections import Counter
from random import Random

import numpy as np
import pytest
from adagp.golden.program import GoldenMachine
from adagp.host.program import header
from adagp.spec.commands import Command, Opcode, Phase
from adagp.spec.errors import ErrorCode
from adagp.spec.opcodes import COMPUTE, NORMS
from adagp.spec.operands import filter_pitch
from adagp.spec.presets import preset
from adagp.spec.schedule import State, following
from failing_commands import FORWARD
from random_programs import DESIGNS, FEW

from robustness.campaign import Campaign, Kind, Record, configured, random_numbers
from robustness.expect import Expectation
from robustness.malformed import Malformed
from robustness.networks import Networks
from robustness.outcome_shares import network_shares, shares
from robustness.predicting import STARTS, PredictingNetworks, schedule_with_gp
from robustness.spoil_commands import neighbours, spoilt

pytestmark = pytest.mark.timeout(900)  # the simulator may have to be built first

SEED = 2
N_COMMANDS = 300
N_PREDICTING = 200
N_NETWORKS = 20
N_PREDICTED = 17
N_PROGRAMS = 200
MEMORY = 1 << 15


def outcomes(case, name, count):
    print(f"seed {SEED}")
    found = Counter(case(index, random_numbers(SEED, name, index)) for index in range(count))
    print(dict(found))
    return found


def test_malformed_commands():
    found = outcomes(Malformed(preset("tiny")), "random_commands", N_COMMANDS)
    share = shares(found)
    assert share["share_executed"] >= 0.15 and share["share_compared_exactly"] >= 0.5
    assert share["share_executed_behind"] > 0
    assert {"BAD_GEOMETRY", "BAD_TILE", "BAD_WAIT", "BAD_TENSOR", "WRITE_REGION", "READ_FAULT"} <= set(found)
    assert found.total() == N_COMMANDS > 0


@pytest.mark.parametrize("variant", ["low", "max"])
def test_malformed_commands_where_gradients_are_predicted(variant):
    found = outcomes(Malformed(configured(f"tiny {variant}")), f"random_commands_{variant}", N_PREDICTING)
    share = shares(found)
    assert share["share_executed"] >= 0.15 and share["share_executed_behind"] > 0
    assert {"BAD_OPCODE", "BAD_GEOMETRY", "BAD_WAIT", "BAD_TENSOR"} <= set(found)
    assert found.total() == N_PREDICTING > 0


@pytest.mark.parametrize("config", [FEW["dropout"], DESIGNS["baseline"]], ids=["few", "all"])
def test_malformed_commands_where_there_are_switches(config):
    found = outcomes(Malformed(config), f"random_commands_{config.variant}", N_PREDICTING)
    share = shares(found)
    assert share["share_executed"] >= 0.15 and share["share_executed_behind"] > 0
    assert {"BAD_GEOMETRY", "BAD_TILE", "BAD_WAIT", "BAD_TENSOR"} <= set(found)
    assert found.total() == N_PREDICTING > 0
    assert any("tables of any bits" in fate for fate in found) == config.batch_norm


def test_spoilt_commands_are_of_all_kinds_that_switches_build():
    print(f"seed {SEED}")
    config, draw, seen = DESIGNS["baseline"], Random(SEED), Counter()
    while seen.total() < 1500:
        program, places = neighbours(config, draw, MEMORY)
        for command in (Command.decode(program[place]) for place in places):
            fields = ("momentum", "bound_mantissa", "slope") if command.opcode not in NORMS else ()
            seen.update([command.opcode, *((command.opcode, name) for name in fields if getattr(command, name))])
            seen.update(["products"] if filter_pitch(command, config) else [])
    kinds = [*COMPUTE, "products", (Opcode.AVGPOOL, "momentum"), (Opcode.FORWARD, "slope")]
    least = {kind: seen[kind] / seen.total() for kind in kinds if kind != Opcode.REORGANISE}
    assert min(least.values()) >= 0.002, least


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


def test_a_result_that_may_not_be_written_leaves_the_program_to_the_golden_model():
    """It would lie on the program, where the commands behind it are yet to be fetched."""
    config, fields = preset("tiny"), FORWARD.fields | {"q": 8, "qb": 8, "a_addr": 0x4000, "b_addr": 0x5000}
    bad, good = (Command(Opcode.FORWARD, fields | {"out_addr": address}) for address in (0, 0x6000))
    commands = [header(config), bad, good, Command(Opcode.END, {"phase_mask": 15})]
    image = np.random.default_rng(SEED).integers(0, 128, MEMORY, np.uint8)
    program = np.array([command.encode() for command in commands], "<u4").view(np.uint8).ravel()
    image[: program.size] = program
    golden = GoldenMachine(config, np.zeros(2 * MEMORY, np.uint8))
    golden.regions = [(0, 2 * MEMORY)]
    golden.start(0)
    course = Expectation(golden, image, commands, [(0x6000, MEMORY)], serial=False).follow(1, 1)
    assert course.codes == {ErrorCode.WRITE_REGION} and course.index == 1
    (behind,) = course.behind
    assert behind.index == 2 and behind.target.sum() == 8 * 8 * 8 * config.operand_bytes
    assert (course.other[: program.size] == program).all()
    assert (course.other != image)[behind.target].mean() > 0.5


def test_random_networks():
    found = outcomes(Networks(shares={"tiny": 1.0}), "random_networks", N_NETWORKS)
    assert found["equal on tiny"] >= N_NETWORKS * 3 // 4
    assert found.total() == N_NETWORKS > 0


def test_random_networks_whose_gradients_are_predicted():
    designs = "tiny max", "tiny low signs", "wide max streamed"
    found = outcomes(PredictingNetworks(names=designs), "random_predicting_networks", N_PREDICTED)
    share = network_shares(found)
    assert found.total() == N_PREDICTED and share["share_with_gp"] >= 0.75
    assert share["share_gp_predicted"] > 0 and share["share_gp_random"] > 0 and share["share_gate_shut"] > 0


def test_schedules_of_random_networks_have_gp_batches():
    """Whatever is drawn, as long as the gate is open."""
    for seed in range(N_PROGRAMS):
        schedule, state, phases = schedule_with_gp(np.random.default_rng(seed)), State(), []
        for _ in range(sum(STARTS)):
            phase, state = following(state, schedule)
            phases.append(phase)
        assert Phase.GP in phases and phases[0] is Phase.WARMUP, f"seed {seed}: {schedule}"


def test_shares_of_random_networks():
    equal = {"equal on tiny max, predicted": 5, "equal on wide max, predicted, gate shut, without GP": 1,
             "equal on tiny max, predicted, gate shut": 1, "equal on tiny max, zero": 2}  # fmt: skip
    assert network_shares({**equal, "not built: LoweringError": 1}) == {
        "share_with_gp": 0.8, "share_gate_shut": 0.2, "share_not_built": 0.1, "share_gp_predicted": 0.6,
        "share_gp_zero": 0.2,
    }  # fmt: skip
    with pytest.raises(AssertionError, match="only 2 of 3 networks with the source zero ran a GP batch"):
        network_shares({**equal, "equal on tiny max, zero, without GP": 1})


def test_shares_are_figures(tmp_path):
    """Their names begin with the campaign's, so that those of several campaigns can stand in one file."""
    cases = Campaign(Kind("tries", lambda top: None, 4, "misses", shares=lambda found: {"share_hit": 0.5}), 1, tmp_path)
    figures, details = cases.figures([Record(index, "hit", False, 0.1) for index in range(4)])
    assert figures == {"tries": 4, "misses": 0, "tries_share_hit": 0.5} and details["outcomes"] == {"hit": 4}
