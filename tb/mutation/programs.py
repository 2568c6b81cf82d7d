"""Programs of random commands, with shapes, tiles, addresses and exponents that no compiler would choose."""

import random
from dataclasses import replace

import numpy as np
from adagp.golden.operands import COMPUTE, operands, outputs
from adagp.host.assembler import Line, Program, header
from adagp.host.device import Device
from adagp.host.sim_device import SimDevice
from adagp.spec.commands import CMode, Command, Opcode
from adagp.spec.registers import Control, Status
from adagp.spec.tile_machine import TileError, descriptors, task
from adagp.spec.tiles import tile_program

from ..layers import random_layer
from .seen import ALWAYS, CONFIG, MEMORIES, SEED, TIMED, Observations, Open, outcome, tables, work

__all__ = ["LONG", "PROGRAM", "SPACE", "Maker", "long", "narrow", "prepare", "program", "rings", "stops", "updates"]

SPACE = 1 << 32
"""Bytes of memory: addresses of all 32 bits."""

PROGRAM = 0x8000_0080
MARGIN = 1 << 12
GEOMETRY = ("n", "c", "h", "w", "q", "r", "s", "stride", "pad_y", "pad_x", "oh", "ow", "nb", "yb", "cb", "qb")
OTHERS = ("bias", "swap", "relu", "track", "out_outer", "c_mode", "const_mantissa", "const_exponent")


class Maker:
    """Puts commands together whose operands lie apart, anywhere in memory: they may overlap in time in any way."""

    def __init__(self, draw: random.Random):
        self.draw, self.lines, self.data, self.exponents = draw, [header(CONFIG)], {}, {}
        self.outputs: list[tuple[int, int]] = []
        self.taken = [(PROGRAM - MARGIN, PROGRAM + MARGIN)]
        self.given = {"wait_main": 0, "wait_update": 0}

    def number(self, current, following=None):
        number = self.draw.choice([n for n in range(CONFIG.n_tensors) if n not in self.exponents])
        self.exponents[number] = current, following
        return number

    def _place(self, size, unit):
        while True:
            start = self.draw.randrange((SPACE - size) // unit) * unit
            if all(start + size + MARGIN < low or high + MARGIN < start for low, high in self.taken):
                self.taken.append((start, start + size))
                return start

    def add(self, opcode: Opcode, fields: dict, values: dict) -> None:
        """A command; ``values`` are the operands that it reads, by name, or None for random ones."""
        fields = {**ALWAYS, **fields, **{name: self.draw.randint(0, count) for name, count in self.given.items()}}
        unit = CONFIG.beat_bytes if opcode == Opcode.UPDATE else CONFIG.operand_bytes
        for name, operand in operands(Command(opcode, fields), CONFIG).items():
            fields[f"{name}_addr"] = address = self._place(operand.n_bytes, unit)
            written = name in outputs(Command(opcode, fields))
            if written:
                self.outputs.append((address, operand.n_bytes))
            if not written or opcode == Opcode.UPDATE:
                self.data[address] = self._values(operand) if values.get(name) is None else values[name]
        self.lines.append(Command(opcode, fields))
        self.given["wait_main" if opcode in COMPUTE else "wait_update"] += 1

    def _values(self, operand):
        random_numbers = np.random.default_rng(self.draw.getrandbits(32))
        limit = 1 << self.draw.randint(2, 8 * operand.dtype.itemsize - 1)
        return random_numbers.integers(1 - limit, limit, operand.shape).astype(operand.dtype)

    def layer(self, **fixed) -> None:
        """A small layer command of any shape; ``fixed`` fields are as given."""
        layer = random_layer(CONFIG, self.draw, limit=300, **fixed)
        t = layer.task
        fields = {name: getattr(t, name) for name in (*GEOMETRY, *OTHERS)}
        fields |= {f"{name}_id": self.number(getattr(t, f"exp_{name}")) for name in ("a", "b", "c", "out")}
        values = {name: layer.operands.get(getattr(t, f"{name}_addr")) for name in ("a", "b", "c")}
        given = {name: value.astype(np.int16) for name, value in values.items() if value is not None}
        self.add(Opcode(t.opcode), fields, given)

    def update(self, count: int) -> None:
        """An UPDATE of ``count`` weights."""
        draw = self.draw
        fields = {"count": count, "hyper": draw.randrange(CONFIG.n_hyper - 2), "c_id": draw.randrange(CONFIG.n_tensors)}
        fields["a_id"] = self.number(draw.randint(-20, 20))
        fields["b_id"] = self.number(draw.randint(-16, 0), draw.randint(-16, 0))
        fields["out_id"] = self.number(draw.randint(-20, 20), draw.randint(-20, 20))
        self.add(Opcode.UPDATE, fields, {})

    def close(self, *opcodes) -> Program:
        self.lines += [Command(opcode, ALWAYS) for opcode in opcodes]
        return Program([Line(command) for command in self.lines], PROGRAM)


def prepare(device: Device, maker: Maker, program: Program, draw: random.Random):
    device.write(program.address, program.words())
    for address, values in maker.data.items():
        device.write(address, values)
    for number, pair in maker.exponents.items():
        device.set_exponents(number, *pair)
    for index in range(CONFIG.n_hyper):
        device.set_hyper(index, draw.getrandbits(16), draw.randint(-40, 4))
    places = sorted(maker.outputs)
    quarter = -(-len(places) // 4)
    groups = [places[i : i + quarter] for i in range(0, len(places), quarter)]
    device.set_regions([(group[0][0], group[-1][0] + group[-1][1]) for group in groups])


def _run(maker, draw, open_device, options, ring=None, **start) -> Observations:
    code = maker.close(Opcode.COMMIT, Opcode.END)
    device = open_device(memory_bytes=SPACE, **options)
    prepare(device, maker, code, draw)
    if ring:
        device.set_ring(*ring)
        if isinstance(device, SimDevice):
            device.write_register("BATCH", ring[-1])
    device.start(code, draw.randrange(4), **start)
    yield "at the end", outcome(device)
    for address, size in maker.outputs:
        yield "results", device.read(address, size).tobytes()
    yield "exponents", tables(device)
    if isinstance(device, SimDevice):
        yield TIMED + "batch and entry", [device.read_register(name) for name in ("BATCH", "RING_INDEX")]
    yield from work(device)


def program(seed: int, memory: str, calibrate: bool, open_device: Open) -> Observations:
    """A dozen commands of random shapes, tiles and addresses, COMMIT; in two batches, or calibrating."""
    draw = random.Random(seed)
    maker = Maker(draw)
    for _ in range(11):
        if draw.random() < 0.25:
            maker.update(draw.choice((1, 5, 40, 300)))
        else:
            maker.layer()
    yield from _run(maker, draw, open_device, MEMORIES[memory], batches=1 if calibrate else 2, calibrate=calibrate)


LONG = {
    "n": 1800, "h": 1400, "w": 1880, "c": 3000, "q": 3000, "r": 230, "s": 230, "stride": 230, "pad_y": 230,
    "pad_x": 230,
}  # fmt: skip
"""Sizes that fill what tiles can have of the scratchpads, or need many tiles."""
PARTS = (1, 2, 4, 8, 16)
TILES = (4000, 2000, 1500, 1000, 700, 500, 250, 120, 60, 1)


def _long(opcode: Opcode, name: str, draw: random.Random) -> dict:
    """Fields of a layer one of whose sizes is as large as may be, in tiles as long as may be."""
    more, swap = draw.randrange(20), draw.randrange(2)
    candidates = (_layer(opcode, name, LONG[name] // part + more, tile, swap) for part in PARTS for tile in TILES)
    return next(fields for fields in candidates if fits(opcode, fields)) | {"const_mantissa": draw.randrange(1 << 16)}


def _layer(opcode, name, size, tile, swap):
    f = dict.fromkeys(GEOMETRY, 1) | {"pad_y": 0, "pad_x": 0, name: size, "swap": swap}
    if opcode >= Opcode.MAXPOOL:
        f["c"] = f["q"] = max(f["c"], f["q"])
    if name == "stride":
        f["h"] = f["w"] = 2 * size + 1
    for extent, out, kernel, pad in (("h", "oh", "r", "pad_y"), ("w", "ow", "s", "pad_x")):
        f[kernel] = max(f[kernel], f[pad] + 1)
        f[extent] = max(f[extent], f[kernel] - f[pad])
        f[out] = (f[extent] + 2 * f[pad] - f[kernel]) // f["stride"] + 1
    extents = {"nb": f["n"], "yb": max(f["h"], f["oh"]), "cb": f["c"], "qb": f["q"]}
    return f | {size: min(extent, tile) for size, extent in extents.items()}


def fits(opcode: Opcode, fields: dict) -> bool:
    """Whether the tiles of a layer have room."""
    try:
        descriptors(tile_program, CONFIG, [task({**fields, "opcode": opcode})])
    except TileError:
        return False
    return True


def long(name: str, open_device: Open) -> Observations:
    """Layers of all kinds that are long in one direction, in the longest tiles that there is room for."""
    for opcode in sorted(COMPUTE):
        draw = random.Random(SEED)
        maker = Maker(draw)
        fields = _long(Opcode(opcode), name, draw)
        numbers = {f"{operand}_id": maker.number(draw.randint(-9, 0)) for operand in ("a", "b", "c", "out")}
        maker.add(Opcode(opcode), fields | numbers | {"track": 1}, {})
        yield from _run(maker, draw, open_device, MEMORIES["ddr3"])


UPDATES = (4095, 70_000)
"""Weights of long updates."""


def updates(open_device: Open) -> Observations:
    """Long updates."""
    for count in UPDATES:
        draw = random.Random(count)
        maker = Maker(draw)
        maker.update(count)
        yield from _run(maker, draw, open_device, MEMORIES["ideal"])


RINGS = ((0, 1), (3, 4), (0x5555_5555, 0xFFFF_FFFF), (0xAAAA_AAAA, 0xAAAA_AAAB), (0xFFFF_FFFE, 0xFFFF_FFFF))
"""The entry to begin with, and how many there are."""


def rings(open_device: Open) -> Observations:
    """Two batches from input rings of any length, stride and place."""
    for index, count in RINGS:
        draw = random.Random(index)
        maker = Maker(draw)
        maker.layer(opcode=Opcode.FORWARD)
        fields, unit = maker.lines[-1].fields, CONFIG.operand_bytes
        base, stride = (draw.randrange(SPACE // unit) * unit for _ in range(2))
        place = fields["a_addr"]
        fields |= {"ring": 1, "a_addr": (place - base - index * stride) % SPACE}
        following = index + 1 if index + 1 < count else 0
        maker.data[(base + following * stride + fields["a_addr"]) % SPACE] = maker.data[place][::-1].copy()
        yield from _run(maker, draw, open_device, MEMORIES["ideal"], batches=2, ring=(base, stride, count, index))


NARROW = [
    MEMORIES["ddr3"] | {"part": replace(CONFIG.dram, name="narrow", bandwidth_bytes=share * CONFIG.clock_hz)}
    for share in (1, 4)
]
"""Memories that give or take so many bytes in a cycle."""


def _columns(maker: Maker, opcode: Opcode, swap: int, channels: int = 1, c_mode: CMode = CMode.NONE) -> None:
    """A layer of sums of so many products, or of one tap, in six tiles."""
    fields = dict.fromkeys(GEOMETRY, 1) | {"pad_y": 0, "pad_x": 0, "h": 24, "w": 16, "oh": 24, "ow": 16, "yb": 4}
    if opcode != Opcode.AVGPOOL:
        names = ("q", "c") if opcode == Opcode.FORWARD else ("c", "q")
        for name, count in zip(names, (5, channels), strict=True):
            fields |= {name: count, f"{name}b": count}
    numbers = {f"{operand}_id": maker.number(maker.draw.randint(-9, 0)) for operand in ("a", "b", "c", "out")}
    maker.add(opcode, fields | numbers | {"swap": swap, "c_mode": c_mode, "const_mantissa": 3, "track": 1}, {})


def narrow(open_device: Open) -> Observations:
    """Layers of short sums in many tiles: engines wait for those behind them, down to the memory."""
    for options in NARROW:
        draw = random.Random(SEED)
        maker = Maker(draw)
        for opcode, swap in ((Opcode.FORWARD, 0), (Opcode.FORWARD, 1), (Opcode.BACKWARD_DATA, 0), (Opcode.AVGPOOL, 0)):
            _columns(maker, opcode, swap)
        yield from _run(maker, draw, open_device, options)


def stops(open_device: Open) -> Observations:
    """A layer whose results pile up, stopped at any moment by CLEAR or reset; then one of longer sums, to its end."""
    draw = random.Random(SEED)
    makers = [Maker(draw) for _ in range(2)]
    _columns(makers[0], Opcode.FORWARD, 0, 1, CMode.ADD)  # sums are there before what is added to them
    _columns(makers[1], Opcode.FORWARD, 0, 16)
    codes = [maker.close(Opcode.COMMIT, Opcode.END) for maker in makers]
    for options, longest in zip(NARROW, (9000, 3000), strict=True):
        device = open_device(memory_bytes=SPACE, **options)
        for number in range(20):
            prepare(device, makers[0], codes[0], random.Random(SEED))
            device.start(codes[0], 0)
            device.simulation.step(draw.randrange(longest))
            if number % 2:
                device.simulation.reset()
                device.write_register("IRQ_ENABLE", 1)
            else:
                device.write_register("CONTROL", Control.CLEAR)
                while device.read_register("STATUS") & Status.BUSY:
                    device.simulation.step(10)
            yield TIMED + "traffic", device.simulation.dram_totals.to_dict()
            prepare(device, makers[1], codes[1], random.Random(SEED))
            yield TIMED + "traffic since", device.simulation.dram_totals.to_dict()
            device.start(codes[1], 0)
            yield "at the end", outcome(device)
            yield "results", [device.read(address, size).tobytes() for address, size in makers[1].outputs]
            yield TIMED + "cycles", device.simulation.cycles
        yield from work(device)
