"""Stages of the top's bench: registers one by one, and commands of CONTROL at the wrong and the right time."""

import random

from adagp.host.devices.simulated import SimDevice
from adagp.host.program import Line, Program, header
from adagp.sim import SimulationError
from adagp.spec.commands import COMMAND_BYTES, Command, Opcode
from adagp.spec.registers import N_PHASES, REGISTERS, Control, register

from .failing_programs import Work
from .observations import ALWAYS, CONFIG, SEED, TIMED, Observations, Open, outcome, tables, work
from .programs import PROGRAM, SPACE

__all__ = ["control", "counters", "places", "registers"]


def _access(device: SimDevice, offset: int, value: int | None = None) -> object:
    """Read a register, or write ``value`` to it; returns the value or the answer to the write."""
    try:
        simulation = device.simulation
        return simulation.read_register(offset) if value is None else simulation.write_register(offset, value)
    except SimulationError as error:
        return str(error)


def registers(open_device: Open) -> Observations:
    """Every register, holes and tables included, before and after random writes in random order; a few at once."""
    draw = random.Random(SEED)
    device = open_device(memory_bytes=1 << 20)
    offsets = [4 * n for n in range(len(REGISTERS) + 4)] + [0x800, 0xFFC]
    effects = {register(name).offset for name in ("CONTROL",)}

    def show():
        return [_access(device, offset) for offset in offsets]

    yield "initial", show()
    for _ in range(4):
        for offset in draw.sample(offsets, len(offsets)):
            if offset not in effects:
                _access(device, offset, draw.getrandbits(32))
        yield "written", show()
    for offset in offsets:  # a write changes what it should and nothing else
        if offset not in effects:
            _access(device, offset, draw.getrandbits(32))
            yield f"register {offset:x}", show()
    for tensor in draw.sample(range(CONFIG.n_tensors), CONFIG.n_tensors):
        device.set_exponents(tensor, draw.randint(-128, 127), draw.choice((None, draw.randint(-128, 127))))
    for index in draw.sample(range(CONFIG.n_hyper), CONFIG.n_hyper):
        device.set_hyper(index, draw.getrandbits(16), draw.randint(-128, 127))
    yield "exponents", tables(device)
    hyper = []
    for index in range(CONFIG.n_hyper):
        device.write_register("HYPER", index)
        hyper.append(device.read_register("HYPER_VALUE"))
    yield "hyper-parameters", hyper
    yield "counters", [device.counters(phase) for phase in range(N_PHASES)]
    yield TIMED + "cycles", device.simulation.cycles


def control(open_device: Open) -> Observations:
    """Interrupts off and on, START while busy, RESUME and CLEAR at the wrong and the right time, counters' reset."""
    work_ = Work()
    device = work_.on(open_device)
    simulation = device.simulation
    watched = ("STATUS", "ERROR", "ERROR_INDEX", "BATCH", "RING_INDEX")

    def state():
        return [device.read_register(name) for name in watched], simulation.cycles

    device.set_ring(0x100, 64, 3, 1)
    device.write_register("IRQ_ENABLE", 0)
    device.start(work_.program, 0, batches=3)
    for _ in range(60):
        simulation.step(997)
        yield TIMED + "state, no interrupts", state()
        device.resume()
    device.write_register("IRQ_ENABLE", 1)
    yield TIMED + "state at the end", (outcome(device), state())
    for after in (0, 1, 7, 50, 333, 1000, 2500, 5000, 9000):
        work_.again(device)
        device.start(work_.program, 1)
        simulation.step(after)
        device.write_register("PROGRAM", 0)  # none of these matters to a run that has begun
        device.write_register("PHASE", 2)
        device.write_register("BATCHES", 9)
        device.write_register("CONTROL", Control.START | (Control.RESET_COUNTERS if after == 50 else 0))
        if after % 2:
            device.write_register("CONTROL", Control.CLEAR)
            for _ in range(6):
                simulation.step(40)
                yield TIMED + "state after CLEAR", state()
            work_.again(device)
            device.start(work_.program, 3)
        yield from work_.rest(device)
        yield TIMED + "state", state()
        yield from work(device)
    device.write_register("CONTROL", Control.RESET_COUNTERS)
    yield "counters", [device.counters(phase) for phase in range(N_PHASES)]


def counters(open_device: Open) -> Observations:
    """Counters of all phases after runs, and of nearly nothing, and after their reset, at many moments."""
    draw = random.Random(SEED)
    work_ = Work()
    device = work_.on(open_device)
    for last in range(N_PHASES):
        for phase in (*range(last), *range(last + 1, N_PHASES), last):
            work_.again(device)
            yield from work_.run(device, phase)
        yield from work(device)
        device.reset_counters()
        device.simulation.step(100)
        yield "counters after reset", [device.counters(phase) for phase in range(N_PHASES)]
    program = Program([Line(header(CONFIG)), Line(Command(Opcode.END, ALWAYS))], PROGRAM - 0x800)
    device.write(program.address, program.words())
    for _ in range(30):
        for phase in draw.sample(range(N_PHASES), N_PHASES):
            device.start(program, phase, batches=draw.randint(1, 3))
            yield "at the end", outcome(device)
        if draw.random() < 0.3:
            yield TIMED + "counters", [device.counters(phase) for phase in draw.sample(range(N_PHASES), N_PHASES)]
        device.reset_counters()
        device.simulation.step(draw.randrange(40))
        yield "counters after reset", [device.counters(phase) for phase in draw.sample(range(N_PHASES), N_PHASES)]


def places(open_device: Open) -> Observations:
    """Tiny programs anywhere in memory, and one that ends where memory ends."""
    draw = random.Random(SEED)
    device = open_device(memory_bytes=SPACE)
    size = 2 * COMMAND_BYTES
    for address in (
        *(1 << bit for bit in range(7, 32)),
        *(draw.randrange(SPACE >> 7) << 7 for _ in range(20)),
        SPACE - size,
    ):
        program = Program([Line(header(CONFIG)), Line(Command(Opcode.END, ALWAYS))], address)
        device.write(program.address, program.words())
        device.start(program, 0)
        yield "at the end", outcome(device)
    yield from work(device)
