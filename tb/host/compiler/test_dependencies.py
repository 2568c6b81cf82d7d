"""Waits of random programs against the meaning of the opcodes."""

import random
from dataclasses import replace

import pytest
from adagp.host.compiler.dependencies import with_waits
from adagp.host.program import Line
from adagp.spec.commands import CMode, Command, Opcode
from adagp.spec.presets import preset

CONFIG = preset("tiny")
SLOT = 1 << 16
"""Bytes between two places a tensor may lie; none is as long."""

READS = {
    Opcode.FORWARD: "ab", Opcode.BACKWARD_DATA: "ab", Opcode.BACKWARD_WEIGHT: "ab", Opcode.MAXPOOL: "a",
    Opcode.MAXPOOL_BACKWARD: "ab", Opcode.AVGPOOL: "a", Opcode.AVGPOOL_BACKWARD: "a",
    Opcode.UPDATE: ("a", "b", "c", "out"),
}  # fmt: skip
WRITES = dict.fromkeys(READS, ("out",)) | {Opcode.MAXPOOL: ("b", "out"), Opcode.UPDATE: ("b", "c", "out")}
OTHERS = (Opcode.COMMIT, Opcode.HOST)
GEMMS = (Opcode.FORWARD, Opcode.BACKWARD_DATA, Opcode.BACKWARD_WEIGHT)


def random_command(rng, slots):
    opcode = rng.choice((*READS, *OTHERS))
    if opcode in OTHERS:
        return Command(opcode, {"phase_mask": 15})
    shape = {"n": 2, "c": 3, "h": 5, "w": 5, "q": 3, "oh": 5, "ow": 5, "r": 3, "s": 3, "stride": 1, "count": 84}
    places = {f"{operand}_addr": SLOT * rng.randrange(slots) for operand in ("a", "b", "c", "d", "out")}
    mode = CMode.NONE if opcode == Opcode.UPDATE else rng.choice(list(CMode))
    fields = {
        "phase_mask": 15,
        "ring": int(rng.random() < 0.2),
        "predictor": int(opcode in GEMMS and rng.random() < 0.4),
    }
    return Command(opcode, {**shape, **places, **fields, "c_mode": int(mode)})


def conflict(earlier, later):
    reads, writes = ({name: set() for name in ("earlier", "later")} for _ in range(2))
    for name, command in (("earlier", earlier), ("later", later)):
        operands = set(READS[command.opcode]) | ({"c"} if command.c_mode else set())
        operands |= {"d"} if command.c_mode == CMode.ADD_MASK else set()
        if command.ring and command.opcode != Opcode.UPDATE:
            operands.discard("a")
        reads[name] = {getattr(command, f"{operand}_addr") for operand in operands}
        writes[name] = {getattr(command, f"{operand}_addr") for operand in WRITES[command.opcode]}
    return writes["earlier"] & (reads["later"] | writes["later"]) or reads["earlier"] & writes["later"]


@pytest.mark.parametrize("slots", (4, 12, 40))
def test_waits_are_the_least_that_suffice(slots):
    print(f"seed {slots}")
    rng = random.Random(slots)
    program = [Line(random_command(rng, slots)) for _ in range(150)]
    done = {"wait_main": [], "wait_update": [], "wait_predictor": []}
    waiting = dict.fromkeys(done, 0)
    for before, after in zip(program, with_waits(program, CONFIG), strict=True):
        command = before.command
        for queue, earlier in done.items():
            places = [
                place for place, other in enumerate(earlier, 1) if command.opcode in READS and conflict(other, command)
            ]
            assert getattr(after.command, queue) == max(places, default=0)
            waiting[queue] += bool(places)
        if command.opcode in READS:
            compute = "wait_predictor" if command.predictor else "wait_main"
            done["wait_update" if command.opcode == Opcode.UPDATE else compute].append(command)
    assert min(waiting.values()) > 0


@pytest.mark.parametrize("distance, waits", ((0, 1), (298, 1), (300, 0), (-298, 1), (-300, 0)))
def test_ranges_conflict_where_they_overlap_and_not_where_they_touch(distance, waits):
    shape = {
        "n": 2,
        "c": 3,
        "h": 5,
        "w": 5,
        "q": 3,
        "oh": 5,
        "ow": 5,
        "r": 1,
        "s": 1,
        "phase_mask": 1,
    }  # 150 operands: 300 bytes
    first = Command(Opcode.AVGPOOL, {**shape, "a_addr": SLOT, "out_addr": 2 * SLOT})
    second = Command(Opcode.AVGPOOL, {**shape, "a_addr": 2 * SLOT + distance, "out_addr": 4 * SLOT})
    assert with_waits([Line(first), Line(second)], CONFIG)[1].command.wait_main == waits


def test_an_update_covers_low_halves_and_momentum():
    update = Command(
        Opcode.UPDATE,
        {"count": 100, "a_addr": 0, "b_addr": SLOT, "c_addr": 2 * SLOT, "out_addr": 3 * SLOT, "phase_mask": 1},
    )
    for address, last in ((SLOT, 200), (2 * SLOT, 200), (3 * SLOT, 400)):
        for offset, waits in ((last - 2, 1), (last, 0)):
            shape = {"n": 1, "c": 1, "h": 1, "w": 1, "q": 1, "oh": 1, "ow": 1, "r": 1, "s": 1, "phase_mask": 1}
            reader = Command(Opcode.AVGPOOL, {**shape, "a_addr": address + offset, "out_addr": 9 * SLOT})
            assert with_waits([Line(update), Line(reader)], CONFIG)[1].command.wait_update == waits


def test_a_line_whose_waits_differ_by_phase_is_there_for_each():
    """Two of three commands are for one phase each; the last reads the results of both."""
    shape = {"n": 1, "c": 1, "h": 1, "w": 1, "q": 1, "oh": 1, "ow": 1, "r": 1, "s": 1}
    writers = [(2, SLOT, 2 * SLOT), (4, SLOT, 3 * SLOT), (4, SLOT, 2 * SLOT)]
    lines = [
        Line(Command(Opcode.AVGPOOL, {**shape, "phase_mask": mask, "a_addr": a, "out_addr": out}))
        for mask, a, out in (*writers, (7, 2 * SLOT, 4 * SLOT))
    ]
    found = with_waits(lines, CONFIG)[3:]
    assert [(line.command.phase_mask, line.command.wait_main) for line in found] == [(1, 0), (2, 1), (4, 2)]


@pytest.mark.parametrize(
    ("place", "pitch", "filters", "wait"),
    [
        (8, 8, 4, 0),
        (-8, 8, 4, 0),
        (24, 8, 4, 0),
        (6, 8, 4, 1),
        (-6, 8, 4, 1),
        (16, 8, 4, 1),
        (8, 16, 4, 1),
        (8, 8, 0, 1),
    ],
)
def test_rows_of_products_lie_between_each_other(place, pitch, filters, wait):
    """Bytes from one command's result to another's, operands from its row to the next, and the filters' pitch."""
    shape = {"n": 1, "c": 4, "h": 5, "w": 1, "q": 4, "oh": 5, "ow": 1, "r": 1, "s": 1, "stride": 1, "phase_mask": 15}
    fields = {**shape, "a_addr": 0, "b_addr": SLOT, "y_pitch": 8, "d_pitch": filters}
    first = Command(Opcode.FORWARD, {**fields, "out_addr": 2 * SLOT})
    other = Command(Opcode.FORWARD, {**fields, "y_pitch": pitch, "out_addr": 2 * SLOT + place})
    lines = with_waits([Line(first), Line(other)], replace(CONFIG, matmul=True))
    assert [line.command.wait_main for line in lines] == [0, wait]
