"""Commands of three queues fail, one, two or all at the same time, in all orders; the predictor memory's edges."""

from itertools import permutations
from random import Random

import numpy as np
import pytest
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.program import Line, Program, header
from adagp.sim import SLVERR, Fault
from adagp.spec.commands import Command, Opcode
from adagp.spec.errors import ErrorCode
from adagp.spec.registers import Status
from robustness.observe import clear
from three_queues import CONFIG, KINDS, MEMORY, QUEUES, image, load, results, trouble, waits

pytestmark = pytest.mark.timeout(900)  # the simulator may have to be built first

SEED = 41
EACH = 8
"""Runs for each order of the queues."""
LIMIT = 200_000


def finish(device, program):
    """Run a program to its end; STATUS, ERROR, ERROR_INDEX."""
    device.start(program, 0)
    last = device.simulation.cycles + LIMIT
    while (status := Status(device.read_register("STATUS"))) & Status.BUSY and device.simulation.cycles < last:
        device.simulation.step(500)
    return status, ErrorCode(device.read_register("ERROR")), device.read_register("ERROR_INDEX")


def expected(commands, memory):
    """The memory after all of the commands, by the golden model."""
    golden = GoldenDevice(CONFIG, MEMORY)
    program = load(golden, commands, memory)
    golden.start(program, 0)
    assert golden.wait() == Status.DONE
    return golden.read(0, MEMORY)


def judge(commands, troubles, found, before, after, good):
    """The earliest failing command is reported, those before it are complete, others whole or not begun."""
    first = min(troubles)
    status, code, index = found
    assert (status, index) == (Status.ERROR, first + 1) and code in troubles[first].codes, found
    nowhere = np.ones(MEMORY, bool)
    executed = 0
    for k, command in enumerate(commands):
        mine = results(command)
        nowhere &= ~mine
        whole, untouched = ((after == state)[mine].all() for state in (good, before))
        if k < first:
            assert whole, f"command {k} before the failing one isn't complete"
        elif k in troubles:
            assert ((after == good) | (after == before))[mine].all(), f"command {k} wrote something else"
        else:
            serial = k > 0 and command.wait_main + command.wait_update + command.wait_predictor == k
            assert untouched or (whole and not serial), f"command {k} is written by half, or though it waits"
            executed += whole
    assert (after == before)[nowhere & (np.arange(MEMORY) < 0x3_0000)].all()
    return executed


@pytest.mark.parametrize("order", list(permutations(QUEUES)), ids=" ".join)
def test_several_queues_fail(order):
    draw = Random(f"{SEED} {order}")
    print(f"seed {SEED}")
    executed = failed = 0
    for _ in range(EACH):
        kinds = [draw.choice(QUEUES[queue]) for queue in order]
        commands = waits([KINDS[kind] for kind in kinds], [draw.random() < 0.2 for _ in kinds])
        chosen = sorted(draw.sample(range(3), draw.choice((1, 2, 3, 3))))
        troubles = {k: trouble(commands[k], draw) for k in chosen}
        before = image(draw.getrandbits(16))
        good = expected(commands, before)
        faults = [fault for one in troubles.values() for fault in one.faults]
        device = SimDevice(
            CONFIG, memory_bytes=MEMORY, stall=draw.choice((0.0, 0.1, 0.4)), seed=1 + draw.getrandbits(20),
            write_latency=draw.choice((0, 40)), faults=faults,
        )  # fmt: skip
        try:
            program = load(device, commands, before, [one.cut for one in troubles.values() if one.cut])
            found = finish(device, program)
            after = device.simulation.memory
            print(kinds, troubles, found)
            executed += judge(commands, troubles, found, before, after, good)
            failed += len(troubles)
            clear(device)
            others = [command for k, command in enumerate(commands) if k not in troubles]
            again = waits(others, [False] * len(others))
            assert finish(device, load(device, again, before))[0] == Status.DONE
            assert (device.simulation.memory[:0x3_0000] == expected(again, before)[:0x3_0000]).all()
        finally:
            device.close()
    assert failed > EACH


def copy(source, target, count):
    """Operands from one address to another."""
    ones = dict.fromkeys(("n", "h", "w", "oh", "ow", "r", "s", "stride", "nb", "yb", "const_mantissa"), 1)
    counts = dict.fromkeys(("c", "q", "cb", "qb"), count)
    return Command(Opcode.AVGPOOL, {**ones, **counts, "phase_mask": 15, "a_addr": source, "out_addr": target})


WINDOW = CONFIG.predictor_window
END = WINDOW + CONFIG.predictor_bytes
INSIDE = [Fault(write, SLVERR, start=WINDOW, end=END) for write in (False, True)]
BEFORE, BEHIND = (
    tuple(Fault(write, SLVERR, start=start, end=start + 8) for write in (False, True)) for start in (WINDOW - 8, END)
)


@pytest.mark.parametrize("edge", [WINDOW, END], ids=["first byte", "last byte"])
def test_faults_next_to_the_predictor_memory(edge):
    """Memory behind the window is never asked; what lies next to it is, also by a command that touches both."""
    data, back, count = 0x800, 0x1800, 20
    start = edge - count
    values = np.random.default_rng(SEED).integers(-100, 100, count).astype("<i2")
    for faults, codes in (
        (INSIDE, (ErrorCode.NONE, ErrorCode.NONE)),
        ([*INSIDE, *(BEFORE if edge == WINDOW else BEHIND)], (ErrorCode.WRITE_FAULT, ErrorCode.READ_FAULT)),
    ):
        device = SimDevice(CONFIG, memory_bytes=1 << 18, faults=faults)
        try:
            device.set_predictor_window(WINDOW)
            device.set_regions([(0, 1 << 18)])
            for source, target, code in ((data, start, codes[0]), (start, back, codes[1])):
                device.write(data, values)
                lines = [header(CONFIG), copy(source, target, count), Command(Opcode.END, {"phase_mask": 15})]
                program = Program([Line(line) for line in lines], 0)
                device.write(0, program.words())
                found = finish(device, program)
                assert found == ((Status.ERROR, code, 1) if code else (Status.DONE, code, 0))
                if code:
                    clear(device)
            if not codes[0]:
                assert (device.read(back, 2 * count).view("<i2") == values).all()
                assert device.counters(0)["predictor_bytes"] > 0
        finally:
            device.close()
