"""The golden model's judgement of tiles, memory and regions: against the sequencer's microcode, and by hand."""

from collections import Counter
from dataclasses import replace
from math import prod
from random import Random

import pytest
from adagp.golden.footprint import Runs, reads, writes
from adagp.golden.judge import Surroundings, Verdict, judge
from adagp.golden.occupancy import Tile, misfit
from adagp.golden.validate import validate
from adagp.spec.commands import FIELDS, Command, Opcode
from adagp.spec.errors import ErrorCode
from adagp.spec.microcode.compiler import compile_program
from adagp.spec.microcode.isa import interpret
from adagp.spec.microcode.machine import TileError, task
from adagp.spec.opcodes import DEPTHWISE, GEMMS, NORMS, POOLS
from adagp.spec.presets import preset
from limits import CONFIGS

TINY = preset("tiny")
PROGRAMS = {name: compile_program(config) for name, config in CONFIGS.items()}
WIDTHS = {field.name: field.width for field in FIELDS}
SEED = 5
N_COMMANDS = 3000
MOST_TILES = 40


class _Machine:
    """Counts descriptors."""

    def __init__(self):
        self.fills = self.stores = 0

    def fill(self, **_):
        self.fills += 1

    def compute(self, **_):
        pass

    drain = compute

    def store(self, **_):
        self.stores += 1

    def fail(self, code):
        raise TileError(code)


def random_fields(draw):
    """A shape that agrees with itself, mostly too large; half of the time channels are cut into equal tiles."""
    sizes = ((0, 4), (1, 40), (0, 300), (65535, 65535), (1, 12), (1, 12))
    names = ("n", "c", "h", "w", "q", "r", "s", "stride")
    fields = {name: max(1, draw.randint(*draw.choice(sizes)) & (1 << WIDTHS[name]) - 1) for name in names}
    opcode = draw.choice((*GEMMS, *[Opcode.BACKWARD_WEIGHT] * 2, *DEPTHWISE, *POOLS[:-1]))
    for size, out, kernel, pad in (("h", "oh", "r", "pad_y"), ("w", "ow", "s", "pad_x")):
        fields[pad] = draw.randrange(fields[kernel])
        fields[size] = max(fields[size], fields[kernel])
        most = min(65535, (fields[size] + 2 * fields[pad] - fields[kernel]) // fields["stride"] + 1)
        fields[out] = draw.choice((most, draw.randint(1, most)))
    fields |= {name: draw.choice((1, 1, 2, 5, 20, 300, 65535)) for name in ("nb", "yb", "cb", "qb")}
    fields |= {name: draw.randrange(2) for name in ("bias", "swap", "out_outer")}
    if draw.random() < 0.5:
        fields["c"] = min(65535, fields["cb"] * draw.randint(1, 3))
    if opcode not in GEMMS:
        fields["q"] = fields["c"]
    if draw.random() < 0.2:
        return normed(draw, fields)
    return {"opcode": opcode, **fields}


def normed(draw, fields):
    """A command of batch norm for the same layer, with as many channels in a tile as there may be room for."""
    alone = {"r": 1, "s": 1, "stride": 1, "pad_y": 0, "pad_x": 0, "oh": fields["h"], "ow": fields["w"]}
    if draw.random() < 0.7:
        alone |= {"h": 1, "oh": 1, "w": draw.choice((1, 1, 2))}
        alone |= {"ow": alone["w"], "n": draw.choice((1, 1, 3)), "nb": draw.randint(1, 3)}
    tile = draw.choice([draw.randint(*sizes) for sizes in ((1, 30), (40, 60), (100, 150), (200, 210), (285, 300))])
    channels = tile * draw.randint(1, 2)
    return {**fields, **alone, "opcode": draw.choice(NORMS), "c": channels, "q": channels, "cb": tile, "qb": tile}


def biased(draw):
    """Equal tiles of channels, near what the accumulator, the C scratchpad or the bias memory of ``tiny`` holds."""
    i_tile, o_tile = draw.choice(((256, 4), (128, 8), (1, 450), (1, draw.randint(1, 500))))
    ones = dict.fromkeys(("n", "h", "w", "oh", "ow", "r", "s", "stride", "nb", "yb", "bias"), 1)
    return {
        "opcode": draw.choice((1, 3, 3)),
        **ones,
        "c": i_tile * draw.randint(1, 3),
        "cb": i_tile,
        "q": o_tile,
        "qb": o_tile,
    }


def narrow(draw):
    """A depthwise convolution of one pixel, whose tile of channels is near what a memory of ``tiny`` holds."""
    kernel, tile = draw.choice(((1, draw.choice((250, 260, 1020, 1030))), (3, 227), (3, draw.randint(200, 230))))
    ones = dict.fromkeys(("n", "h", "w", "oh", "ow", "stride", "nb", "yb", "bias"), 1)
    fields = {"r": kernel, "s": kernel, "pad_y": kernel // 2, "pad_x": kernel // 2, "cb": tile, "qb": tile}
    channels = tile * draw.randint(1, 3)
    return {"opcode": draw.choice(DEPTHWISE), **ones, **fields, "c": channels, "q": channels}


def later(draw):
    """A strided BACKWARD_DATA; of its residue classes, a later one with more taps may not fit ``tiny``."""
    channels = {"c": draw.randint(1, 15), "q": 128, "cb": 15, "qb": 128}
    sizes = dict.fromkeys(("h", "w"), 7) | dict.fromkeys(("oh", "ow"), 3) | dict.fromkeys(("r", "s"), 3)
    return {"opcode": 2, "n": 1, "stride": 2, "pad_y": draw.randrange(3), "pad_x": draw.randrange(3), "nb": 1,
            "yb": draw.randint(1, 7), "swap": draw.randrange(2), **channels, **sizes}  # fmt: skip


def command(opcode, **fields):
    return Command(Opcode(opcode), fields)


def test_golden_knows_which_tile_does_not_fit():
    """The code, whether operands were read before, and whether results may have been written."""
    print(f"seed {SEED}")
    draw, seen, depthwise, norms = Random(SEED), Counter(), Counter(), Counter()
    for _ in range(N_COMMANDS):
        make = draw.choices((biased, later, narrow, random_fields), (3, 3, 2, 92))[0]
        name, fields = draw.choice(sorted(CONFIGS)), make(draw)
        name = "depthwise" if fields["opcode"] in DEPTHWISE else "norm" if fields["opcode"] in NORMS else name
        config, given = CONFIGS[name], command(**fields)
        if validate(given, config) != ErrorCode.NONE:
            continue
        expected, machine = misfit(given, config), _Machine()
        if (expected is None or expected.later) and prod(Tile(given).counts) > MOST_TILES:
            continue
        try:
            interpret(PROGRAMS[name], config, task(fields), machine)
            found = None
        except TileError as error:
            found = error.code
        assert found == (expected and expected.code), str(fields)
        if expected is not None:
            assert (machine.fills > 0, machine.stores > 0) == (expected.reads, expected.later), fields
        seen[expected and (expected.code, expected.later)] += 1
        depthwise[expected and expected.code] += fields["opcode"] in DEPTHWISE
        norms[expected and expected.code] += fields["opcode"] in NORMS
    print(dict(seen), dict(depthwise), dict(norms))
    overflows = {(code, False) for code in ErrorCode if ErrorCode.BAD_TILE < code <= ErrorCode.BIAS_OVERFLOW}
    assert {
        None,
        *overflows,
        (ErrorCode.ACC_OVERFLOW, True),
        (ErrorCode.C_OVERFLOW, True),
        (ErrorCode.B_OVERFLOW, True),
    } <= set(seen)
    assert {None, *(code for code, _ in overflows)} <= set(+depthwise)
    assert {None, ErrorCode.A_OVERFLOW, ErrorCode.B_OVERFLOW, ErrorCode.C_OVERFLOW} <= set(+norms)


LAYER = {
    "n": 2, "c": 3, "h": 5, "w": 4, "oh": 2, "ow": 1, "q": 2, "r": 2, "s": 2, "stride": 2,
    "nb": 2, "yb": 5, "cb": 3, "qb": 3, "a_addr": 0x100, "b_addr": 0x200, "c_addr": 0x300, "out_addr": 0x400,
}  # fmt: skip
X, Y, FILTER = 2 * 5 * 4 * 3 * 2, 2 * 2 * 1 * 2 * 2, (2 * 2 * 3 + 1) * 2


def test_bytes_touched():
    """Windows of 4 of 5 rows and 2 of 4 columns; biases only where they have a use."""
    layer = {**LAYER, "c_mode": 2}
    last = X // 2 + (3 * 4 + 2) * 3 * 2
    forward = reads(command(1, **layer), TINY, 0x100)
    assert {name: runs.end for name, runs in forward.items()} == {
        "a": 0x100 + last, "b": 0x200 + 2 * FILTER - 2, "c": 0x300 + Y,
    }  # fmt: skip
    assert reads(command(1, **layer, bias=1), TINY, 0)["b"].end == 0x200 + 2 * FILTER
    assert reads(command(2, **layer), TINY, 0x100)["a"] == Runs(0x100, Y // 2, 2, Y // 2)
    weight = writes(command(3, **LAYER), TINY)["out"]
    assert weight.intervals() == [(0x400 + i * FILTER, 0x400 + (i + 1) * FILTER - 2) for i in (0, 1)]
    assert list(writes(command(4, **{**LAYER, "q": 3}), TINY)) == ["out", "b"]


NONE, REGION, READ, WRITE = (
    ErrorCode[name] for name in ("NONE", "WRITE_REGION", "READ_FAULT", "WRITE_FAULT")
)  # fmt: skip
OUT = (0x400, 0x400 + Y)
HALF = 0x400 + Y // 2


@pytest.mark.parametrize(("changes", "regions", "codes", "partial"), [
    ({}, [OUT], {NONE}, False),
    ({}, [(0x402, OUT[1])], {REGION}, True), ({}, [(0x400, OUT[1] - 1)], {REGION}, True), ({}, [], {REGION}, True),
    ({}, [(0x400, HALF), (HALF, OUT[1])], {NONE}, False),  # an image each
    ({}, [(0x400, HALF + 2), (HALF + 2, OUT[1])], {NONE, REGION}, True),
    ({"a_addr": 0xF80}, [OUT], {READ}, False), ({"a_addr": 0xF80, "nb": 1}, [OUT], {READ}, True),
    ({"a_addr": 0xF80, "nb": 1}, [], {READ, REGION}, True),
    ({"out_addr": 0xFFC}, [(0, 1 << 20)], {WRITE}, True), ({"out_addr": 0xFFC}, [OUT], {WRITE, REGION}, True),
    ({"a_addr": 0x1000 - X + 12}, [OUT], {NONE}, False),  # what no window reaches
    ({"c": 0, "a_addr": 0xFFE}, [], {ErrorCode.BAD_GEOMETRY}, False),
])  # fmt: skip
def test_verdicts(changes, regions, codes, partial):
    around = Surroundings(0x1000, regions, changes.get("a_addr", 0x100), {"wait_main": 0, "wait_update": 0})
    assert judge(command(1, **{**LAYER, **changes}), TINY, around) == Verdict(frozenset(codes), partial)


@pytest.mark.parametrize(("changes", "regions", "code", "partial"), [
    ({}, [(0x200, 0x500)], NONE, False), ({}, [(0x200, 0x20A), (0x300, 0x30A), (0x400, 0x414)], NONE, False),
    ({}, [(0x200, 0x20A), (0x300, 0x309), (0x400, 0x414)], REGION, False),
    ({}, [(0x200, 0x20A), (0x300, 0x30A), (0x400, 0x408), (0x408, 0x414)], REGION, False),
    ({"a_addr": 0xFF8}, [], REGION, False), ({"a_addr": 0xFF8}, [(0x200, 0x500)], READ, True),
    ({"a_addr": 0xFF8, "count": 0}, [], NONE, False),
])  # fmt: skip
def test_verdicts_on_updates(changes, regions, code, partial):
    fields = {"a_addr": 0x100, "b_addr": 0x200, "c_addr": 0x300, "out_addr": 0x400, "count": 5, **changes}
    around = Surroundings(0x1000, regions, fields["a_addr"], {"wait_main": 0, "wait_update": 0})
    assert judge(command(Opcode.UPDATE, **fields), TINY, around) == Verdict(frozenset({code}), partial)


MAX = replace(TINY, variant="max")
NOTHING = dict.fromkeys(("wait_main", "wait_update", "wait_predictor"), 0)


def test_bytes_touched_where_gradients_are_predicted():
    """Pixels with gaps between them; what a REORGANISE reads; an ADAM's arrays, and an UPDATE's without gradients."""
    pitched = {**LAYER, "y_pitch": 7}
    assert writes(command(1, **pitched), TINY)["out"] == Runs(0x400, 4, 4, 14)
    assert reads(command(2, **pitched), TINY, 0x100)["a"] == Runs(0x100, 4, 4, 14)
    assert reads(command(3, **pitched), TINY, 0x100)["b"] == Runs(0x200, 4, 4, 14)
    apart = {**LAYER, "x_pitch": LAYER["c"] + 2, "c_mode": 4, "c_pitch": 5, "d_addr": 0x800}
    read = reads(command(1, **apart), TINY, 0x100)
    assert read["c"] == Runs(LAYER["c_addr"], 4, 4, 10) and read["d"] == Runs(0x800, 8, 2, 8)
    pixel, image = 2 * (LAYER["c"] + 2), LAYER["h"] * LAYER["w"]
    assert read["a"].pitch == image * pixel and read["a"].length % pixel == 2 * LAYER["c"]
    assert writes(command(2, **apart), TINY)["out"] == Runs(0x400, 2 * LAYER["c"], 2 * image, pixel)
    assert writes(command(1, **{**LAYER, "y_pitch": 2}), TINY) == writes(command(1, **LAYER), TINY)
    assert reads(command(Opcode.REORGANISE, **LAYER), MAX, 0) == {}
    arrays = {"count": 5, "a_addr": 0x100, "b_addr": 0x200, "c_addr": 0x300, "out_addr": 0x400, "d_addr": 0x500}
    assert writes(command(Opcode.ADAM, **arrays), MAX)["d"] == Runs(0x500, 40)
    assert list(reads(command(Opcode.UPDATE, **arrays, source=1, quality=1), MAX, 0)) == ["b", "c", "out", "d"]


def test_verdicts_where_gradients_are_predicted():
    """An ADAM's second moments in no region; a tile that fits the core but not the predictor's; waits for that."""
    arrays = {"count": 5, "a_addr": 0x100, "b_addr": 0x200, "c_addr": 0x300, "out_addr": 0x400, "d_addr": 0x500}
    for end, code in ((0x528, NONE), (0x520, REGION)):
        around = Surroundings(0x1000, [(0x200, end)], 0x100, NOTHING)
        assert judge(command(Opcode.ADAM, **arrays), MAX, around) == Verdict(frozenset({code}))
    large = {
        **LAYER,
        "n": 1,
        "c": 8,
        "cb": 8,
        "h": 10,
        "w": 10,
        "oh": 9,
        "ow": 9,
        "stride": 1,
        "yb": 9,
        "out_addr": 0x8000,
    }
    around = Surroundings(1 << 16, [(0, 1 << 16)], 0x100, NOTHING)
    for predictor, codes in ((0, {NONE}), (1, {ErrorCode.A_OVERFLOW})):
        assert judge(command(1, **large, predictor=predictor), MAX, around).codes == codes
    assert judge(command(1, **LAYER, wait_predictor=1), MAX, around).codes == {ErrorCode.BAD_WAIT}
