"""Programs of random commands, with shapes, tiles, addresses and exponents that no compiler would choose."""

import random
from dataclasses import replace

import numpy as np
from adagp.host.devices.device import Device
from adagp.host.devices.simulated import SimDevice
from adagp.host.program import Line, Program, header
from adagp.spec.commands import CMode, Command, Opcode
from adagp.spec.opcodes import COMPUTE
from adagp.spec.operands import operands, outputs
from adagp.spec.registers import Control, Status

from ..support.layers import random_layer
from .observations import ALWAYS, CONFIG, MEMORIES, SEED, TIMED, Observations, Open, outcome, tables, work

__all__ = ["GEOMETRY", "PROGRAM", "SPACE", "Maker", "narrow", "prepare", "program", "rings", "run", "stops"]

SPACE = 1 << 32
"""Bytes of memory: addresses of all 32 bits."""

PROGRAM = 0x8000_0080
MARGIN = 1 << 12
GEOMETRY = ("n", "c", "h", "w", "q", "r", "s", "stride", "pad_y", "pad_x", "oh", "ow", "nb", "yb", "cb", "qb")
OTHERS = ("bias", "swap", "relu", "track", "out_outer", "c_mode", "const_mantissa", "const_exponent",
          "x_pitch", "y_pitch", "c_pitch", "d_pitch")  # fmt: skip


class Maker:
    """Makes commands whose operands lie apart, anywhere in memory, so that they may overlap in time in any way."""

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
        limit = 1 << self.draw.randint(2, 8 * operand.element_bytes - 1)
        return random_numbers.integers(1 - limit, limit, operand.shape).astype(f"<i{operand.element_bytes}")

    def layer(self, **fixed) -> None:
        """A small layer command of any shape; ``fixed`` fields are as given."""
        layer = random_layer(CONFIG, self.draw, limit=300, **fixed)
        t = layer.task
        fields = {name: getattr(t, name) for name in (*GEOMETRY, *OTHERS)}
        fields |= {f"{name}_id": self.number(getattr(t, f"exp_{name}")) for name in ("a", "b", "c", "out")}
        values = {name: layer.operands.get(getattr(t, f"{name}_addr")) for name in ("a", "b", "c")}
        if t.c_mode == CMode.ADD_MASK:
            values["d"] = layer.operands.get(t.d_addr)
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


def run(maker, draw, open_device, options, ring=None, **start) -> Observations:
    """Run a maker's program from beginning to end, and observe its results."""
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
    yield from run(maker, draw, open_device, MEMORIES[memory], batches=1 if calibrate else 2, calibrate=calibrate)


RINGS = ((0, 1), (3, 4), (0x5555_5555, 0xFFFF_FFFF), (0xAAAA_AAAA, 0xAAAA_AAAB), (0xFFFF_FFFE, 0xFFFF_FFFF))
"""First entry and number of entries of each ring."""


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
        yield from run(maker, draw, open_device, MEMORIES["ideal"], batches=2, ring=(base, stride, count, index))


NARROW = [
    MEMORIES["ddr3"] | {"part": replace(CONFIG.dram, name="narrow", bandwidth_bytes=share * CONFIG.clock_hz)}
    for share in (1, 4)
]
"""Memories with a given bandwidth in bytes a cycle."""


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
    """Layers of short sums in many tiles, so that each engine waits for the next, down to the memory."""
    for options in NARROW:
        draw = random.Random(SEED)
        maker = Maker(draw)
        for opcode, swap in ((Opcode.FORWARD, 0), (Opcode.FORWARD, 1), (Opcode.BACKWARD_DATA, 0), (Opcode.AVGPOOL, 0)):
            _columns(maker, opcode, swap)
        yield from run(maker, draw, open_device, options)


def stops(open_device: Open) -> Observations:
    """A layer whose results pile up, stopped at any moment by CLEAR or reset; then one of longer sums, to its end."""
    draw = random.Random(SEED)
    makers = [Maker(draw) for _ in range(2)]
    _columns(makers[0], Opcode.FORWARD, 0, 1, CMode.ADD)  # sums are complete before their addends arrive
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
