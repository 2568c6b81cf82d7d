"""Programs that must fail as the contract says, and go on after CLEAR: faults, write regions, malformed commands."""

import random

import numpy as np
from adagp.host.devices.device import Device
from adagp.host.devices.simulated import SimDevice
from adagp.host.program import Line, Program, header
from adagp.sim.native_types import DECERR, SLVERR, Fault
from adagp.spec.commands import COMMAND_WORDS, Command, Opcode
from adagp.spec.opcodes import DEPTHWISE, NORMS
from adagp.spec.registers import N_REGIONS, Status

from ..support import failing_commands
from ..support.limits import CASES
from .observations import ALWAYS, CONFIG, SEED, TIMED, Observations, Open, outcome, tables, work
from .programs import PROGRAM, SPACE, Maker, prepare

__all__ = ["Work", "edges", "faults", "malformed", "refused", "regions", "several"]


class Work:
    """A FORWARD that fills C and bias, an AVGPOOL, a BACKWARD_DATA, an UPDATE, HOST, another UPDATE, COMMIT, END."""

    def __init__(self, seed: int = SEED):
        self.draw = random.Random(seed)
        self.maker = maker = Maker(self.draw)
        maker.layer(opcode=Opcode.FORWARD, bias=1, c_mode=2, track=1)
        maker.layer(opcode=Opcode.AVGPOOL)
        maker.update(20)
        maker.lines.append(Command(Opcode.HOST, ALWAYS))
        maker.layer(opcode=Opcode.BACKWARD_WEIGHT, bias=1)
        maker.update(20)
        self.program = maker.close(Opcode.COMMIT, Opcode.END)

    def on(self, open_device: Open, **options) -> Device:
        device = open_device(memory_bytes=SPACE, **options)
        self.again(device)
        return device

    def again(self, device: Device) -> None:
        """Fresh data."""
        for address, size in self.maker.outputs:
            device.write(address, np.zeros(size, np.uint8))
        prepare(device, self.maker, self.program, random.Random(SEED))

    def run(self, device: Device, phase: int = 0) -> Observations:
        """Start, through HOST to the end, if it gets there."""
        device.start(self.program, phase)
        yield from self.rest(device)

    def rest(self, device: Device) -> Observations:
        for _ in range(2):
            yield "outcome", (found := outcome(device))
            if found != (Status.BUSY | Status.HOST,):
                break
            device.resume()
        yield "results", [device.read(address, size).tobytes() for address, size in self.maker.outputs]
        yield "exponents", tables(device)


def faults(write: bool, open_device: Open) -> Observations:
    """The nth burst fails, for many n; after CLEAR another run does what it must."""
    work_ = Work()
    for nth in range(0, 60, 3 if write else 4):
        device = work_.on(open_device, faults=[Fault(write, DECERR if nth % 2 else SLVERR, nth)])
        yield from work_.run(device)
        work_.again(device)
        yield from work_.run(device)
        yield from work(device)


def regions(open_device: Open) -> Observations:
    """Each region in turn ends early, begins late or is missing."""
    work_ = Work()
    device = work_.on(open_device)
    for index in range(4):
        for name, by in (("START", 2), ("END", -1), ("END", -(1 << 14)), ("START", 1 << 13)):
            work_.again(device)
            if isinstance(device, SimDevice):
                for end in ("START", "END"):
                    value = device.read_register(f"REGION{index}_{end}")
                    device.write_register(f"REGION{index}_{end}", value + (by if end == name else 0))
            yield from work_.run(device)
    yield from work(device)


def several(open_device: Open) -> Observations:
    """An UPDATE and compute commands behind it fail, the one or the other first."""
    f = failing_commands
    cases = {
        "misfit": ([f.MISFIT], [], f.END, 0), "read": ([f.FORWARD], [f.BAD_WEIGHTS], f.END, 0),
        "region": ([f.FORWARD], [], f.HALF, 0), "region and read": ([f.ROWS, f.BAD], [f.BAD_DATA], f.RESULT, f.FAR),
    }  # fmt: skip
    for name, (commands, faults_, end, before) in cases.items():
        for fault in (f.LATE,) if before else (f.EARLY, f.LATE):
            device = open_device(memory_bytes=f.MEMORY, faults=[*faults_, fault])
            device.start(f.load(device, [f.UPDATE, *commands], end, before), 0)
            yield f"{name}: outcome", outcome(device)
            yield f"{name}: result", device.read(f.RESULT, f.END - f.RESULT).tobytes()
            yield from work(device)


def edges(open_device: Open) -> Observations:
    """UPDATEs with an array at each power of two, in a region that holds it, or lacks a byte of it at either end."""
    device = open_device(memory_bytes=SPACE)
    names = {"b_addr": 0x30, "c_addr": 0x50, "out_addr": 0x88}
    sizes = {"b_addr": CONFIG.operand_bytes, "c_addr": 2, "out_addr": 4}
    count = 2
    for bit in range(CONFIG.beat_bytes.bit_length(), 32):
        for n in range(N_REGIONS):
            name = list(names)[(bit + n) % len(names)]
            begin = 1 << bit
            end = begin + count * sizes[name]
            fields = {"count": count, "a_addr": 0x68, **names, name: begin, "a_id": 1, "b_id": 2, "out_id": 3}
            commands = [header(CONFIG), Command(Opcode.UPDATE, ALWAYS | fields), Command(Opcode.END, ALWAYS)]
            code = Program([Line(command) for command in commands], PROGRAM)
            device.write(code.address, code.words())
            for region in ((begin, end), (begin + 1, SPACE - 1), (0, end - 1)):
                regions_ = [(0, 0)] * N_REGIONS
                regions_[n], regions_[(n + 1) % N_REGIONS] = region, (0x30, 0x90)
                device.set_regions(regions_)
                device.start(code, 0)
                yield f"bit {bit}, region {n}", outcome(device)
    if isinstance(device, SimDevice):
        yield TIMED + "cycles", device.simulation.cycles


BASE = {
    "n": 1, "c": 3, "h": 4, "w": 4, "q": 3, "r": 2, "s": 2, "stride": 1, "pad_y": 1, "pad_x": 1, "oh": 5, "ow": 5,
    "nb": 1, "yb": 5, "cb": 3, "qb": 3, "a_addr": 0x1000, "b_addr": 0x2000, "c_addr": 0x3000, "out_addr": 0x4000,
}  # fmt: skip
"""A layer that is as it should be."""
BAD_LAYER = {
    "pad_y": 2, "pad_x": 2, "oh": 6, "ow": 6, "c_mode": 3, "wait_main": 1, "wait_update": 1, "a_addr": 0x1001,
    "b_addr": 0x2001, "c_addr": 1, "out_addr": 3, "a_id": 64, "b_id": 65, "c_id": 128, "out_id": 65535,
    "wait_predictor": 1, "y_pitch": 2, "reorganise": 1, "predictor": 1,
}  # fmt: skip
UPDATE = {"count": 3, "a_addr": 0, "b_addr": 64, "c_addr": 128, "out_addr": 192}
BAD_UPDATE = {
    "hyper": 14, "a_addr": 4, "b_addr": 68, "c_addr": 2, "out_addr": 1, "a_id": 64, "b_id": 64, "c_id": 64,
    "out_id": 64, "wait_main": 1, "wait_update": 1, "wait_predictor": 1, "quality": 1, "source": 1,
}  # fmt: skip
BAD_OPCODES = (*DEPTHWISE, *NORMS, 23, 24, 32, 64, 128, 255)


def refused() -> list[tuple[str, list[Command]]]:
    """Programs that fail, by what is wrong with them."""
    first, end = header(CONFIG), Command(Opcode.END, ALWAYS)
    sized = [name for name in BASE if "addr" not in name and "pad" not in name]
    spoilt = [
        *((fields["opcode"], fields) for config, fields, _, code in CASES if config == "tiny" and code),
        *((Opcode.FORWARD, BASE | {name: 0}) for name in sized),
        *((opcode, BASE | {name: value}) for opcode in (Opcode.FORWARD, Opcode.MAXPOOL, Opcode.BACKWARD_WEIGHT)
          for name, value in BAD_LAYER.items()),
        (Opcode.MAXPOOL, BASE | {"q": 4}), (Opcode.REORGANISE, dict.fromkeys(BASE, 1)), (Opcode.ADAM, UPDATE),
        *((Opcode.UPDATE, UPDATE | {name: value}) for name, value in BAD_UPDATE.items()),
    ]  # fmt: skip
    programs = []
    for opcode, fields in spoilt:
        fields = {name: value for name, value in fields.items() if name != "opcode"}
        programs.append((f"{opcode!r} {fields}", [first, Command(opcode, ALWAYS | fields), end]))
    for name in ("config_hash", "version"):
        for bit in (0, 15, 16, 31):
            other = {**first.fields, name: first.fields[name] ^ 1 << bit}
            programs.append((f"{name} bit {bit}", [Command(Opcode.HEADER, other), end]))
    return [*programs, ("no header", [Command(Opcode.COMMIT, ALWAYS), first, end])]


def malformed(open_device: Open) -> Observations:
    """Commands that must be refused, each with its code, and opcodes that there aren't."""
    device = open_device(memory_bytes=1 << 20)
    device.set_regions([(0, 1 << 20)])
    address = PROGRAM % (1 << 20)
    for name, commands in refused():
        code = Program([Line(command) for command in commands], address)
        device.write(address, code.words())
        device.start(code, 0)
        yield name, outcome(device)
    code = Program([Line(header(CONFIG)), Line(Command(Opcode.END, ALWAYS))], address)
    for opcode in BAD_OPCODES:
        words = code.words().copy()
        words[COMMAND_WORDS] ^= opcode ^ Opcode.END
        device.write(address, words)
        device.start(code, 0)
        yield f"opcode {opcode}", outcome(device)
    yield from work(device)
