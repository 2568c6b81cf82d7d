"""Malformed commands: valid ones with some fields spoilt, compared with the golden model's judgement.

Each case is a program with one or two such commands. They may have valid neighbours before and after them, and the
commands may wait for each other or not. If the golden model executes a command, the accelerator must give the same
bits. If it refuses one, the accelerator must refuse it with the same error and index, and write nothing for it. Later
commands must be executed in full or not at all. No write may leave the write regions, which are drawn at random and
often cut a result.
"""

from functools import partial
from pathlib import Path
from random import Random

import numpy as np
from adagp.golden.adam import Powers
from adagp.golden.footprint import writes
from adagp.golden.program import GoldenMachine
from adagp.golden.state import COUNTED
from adagp.host.devices.simulated import SimDevice
from adagp.spec.commands import Command, Opcode, command_field
from adagp.spec.config import Config
from adagp.spec.numerics import unpredicted
from adagp.spec.operands import operands
from adagp.spec.registers import N_REGIONS, Control, Status

from .campaign import PREDICTING_DESIGNS, Case, Kind, configured
from .expect import Course, Expectation
from .extent import is_work, mask, work
from .outcome_shares import BEHIND, shares
from .spoil_commands import BASE, neighbours, spoilt

__all__ = ["MALFORMED", "PREDICTING", "Malformed"]

MEMORY = 1 << 15
BEYOND = 1 << 17
"""Bytes that the golden model has after the memory's end."""
MOST = 200_000
"""A program with at most this many cycles of work must reach its end, even if the golden model doesn't run it all."""
CUT = 2_500
"""Cycles after which a program with more work is stopped."""
SLACK = 8
"""Most cycles of a program, as a multiple of its work; other engines, latency and stalls take the rest."""
OVERHEAD = 3_000
STOP = 2_000
"""Cycles within which CLEAR must stop a program."""
STALL = 0.1
FRACTION = 77
"""Fraction of scales, in 1/256."""
BATCH = 0x1234_5678
"""The number of each program's batch."""
POWERS = 0xE000_0000, 0xFF00_0000
"""Powers of Adam's betas before each program."""
UNPREDICTED = 0.3
"""Share of UPDATEs that find marks of weights without a prediction."""
LAST = 0xFFFF_FFFF


class _Wrong(AssertionError):
    """The accelerator did something wrong."""


def _require(ok, what):
    if not ok:
        raise _Wrong(what)


class Malformed:
    """The case function; simulates ``top`` (default: the generated Verilog).

    One simulator runs case after case, with CLEAR between them.
    """

    def __init__(self, config: Config, top: Path | None = None):
        self.config = config
        self.device = SimDevice(config, memory_bytes=MEMORY, stall=STALL, top=top)
        self.golden = GoldenMachine(config, np.zeros(MEMORY + BEYOND, np.uint8))
        self.golden.regions = [(0, MEMORY + BEYOND)]  # the judge checks regions
        self.device.set_ring(BASE, 0, 1)
        self.golden.ring_base, self.golden.ring_count = BASE, 1
        draw = Random(0)
        self.scales = {0, *range(3, config.n_tensors, 8)} if config.predicts else set()
        for tensor in range(config.n_tensors):
            cur = draw.randint(-12, 4)
            self._set_exponents(tensor, (cur, draw.choice((None, cur + draw.randint(-3, 3)))))
        for index in range(config.n_hyper):
            pair = draw.randrange(1 << 16), draw.randint(-20, -12)
            self.device.set_hyper(index, *pair)
            self.golden.set_hyper(index, *pair)
        self.table = [self.golden.get_exponents(tensor) for tensor in range(config.n_tensors)]

    def _set_exponents(self, tensor, pair):
        if tensor in self.scales:
            self.device.set_scale(tensor, pair[0], FRACTION)
            table = self.golden.exponents
            table.cur[tensor], table.next[tensor], table.is_scale[tensor] = pair[0], FRACTION, True
            return
        self.device.set_exponents(tensor, *pair)
        self.golden.set_exponents(tensor, *pair)

    def __call__(self, index: int, rng: np.random.Generator) -> str:
        draw = Random(int(rng.integers(1 << 63)))
        program, places = neighbours(self.config, draw, MEMORY)
        for place in places:
            program[place] = spoilt(self.config, program[place], draw)
        image = np.frombuffer(rng.bytes(MEMORY), np.uint8).copy()
        image.view("<u2")[image.view("<u2") == 0x8000] = 0  # no mantissa
        words = np.array(program, "<u4").view(np.uint8).ravel()
        image[: words.size] = words
        commands = [_decoded(words) for words in program]
        if self.config.predicts:
            self._mark(image[words.size * words.itemsize :], words.size * words.itemsize, commands, draw)
        regions = _regions(self.config, draw, commands, places[0])
        calibrate = draw.random() < 0.1
        try:
            state = self._run(image, commands, regions, calibrate)
            return self._compare(image, commands, places[0], regions, calibrate, state)
        finally:
            if calibrate or any(command and command.opcode == Opcode.COMMIT for command in commands):
                for tensor in self._tensors(commands):
                    self._set_exponents(tensor, self.table[tensor])

    def _mark(self, image, first, commands, draw):
        """Put marks among gradients and errors; ``image`` holds the bytes from address ``first`` on."""
        mark = np.array([unpredicted(self.config.operand_width)], "<i2").view(np.uint8)
        for command in commands:
            if command is None or command.opcode != Opcode.UPDATE or draw.random() > UNPREDICTED:
                continue
            for name, place in operands(command, self.config).items():
                end = min(place.address + place.n_bytes, MEMORY - 1)
                for address in range(place.address, end, 2 * draw.randint(1, 9)):
                    if name in "ad" and first <= address and address % 2 == 0:
                        image[address - first :][:2] = mark

    def _tensors(self, commands):
        """Numbers of the tensors whose exponents the commands may change."""
        ids = ("out", "b", "d", "scale")
        numbers = {getattr(command, f"{name}_id") for command in commands if command for name in ids}
        return [number for number in sorted(numbers) if number < self.config.n_tensors]

    def _run(self, image, commands, regions, calibrate):
        """Run the program from ``image``; (STATUS, ERROR, ERROR_INDEX), BUSY in STATUS if it was cut short."""
        device, simulation = self.device, self.device.simulation
        simulation.memory[:] = image
        device.set_regions(regions)
        if self.config.predicts:
            device.set_adam_powers(*POWERS)
            self.golden.powers = Powers(*POWERS)
        device.set_batch(BATCH)
        device.reset_counters()
        for name, value in (("PROGRAM", 0), ("BATCHES", 1), ("CALIBRATE", int(calibrate))):
            device.write_register(name, value)
        cycles = [work(command, self.config) for command in commands]
        huge = max(cycles) > MOST
        limit = CUT if huge else OVERHEAD + SLACK * sum(cycles) * (1 + calibrate)
        end = simulation.cycles + limit
        device.write_register("CONTROL", Control.START)
        while True:
            simulation.step(max(1, end - simulation.cycles))
            status = Status(device.read_register("STATUS"))
            if status & Status.HOST:
                device.resume()
            elif status != Status.BUSY or simulation.cycles >= end:
                break
        state = status, device.read_register("ERROR"), device.read_register("ERROR_INDEX")
        _require(huge or not status & Status.BUSY, f"no end within {limit} cycles")
        device.write_register("CONTROL", Control.CLEAR)
        end = simulation.cycles + STOP
        while device.read_register("STATUS") & (Status.BUSY | Status.ERROR):
            _require(simulation.cycles < end, f"CLEAR doesn't stop it within {STOP} cycles")
        return state

    def _compare(self, image, commands, place, regions, calibrate, state):
        """The program's outcome against the expected one; returns the spoilt command's fate."""
        status, error, index = state
        self.golden.reset_counters()
        self.golden.batch = BATCH
        self.golden.start(0, calibrate=calibrate)
        expectation = Expectation(self.golden, image, commands, regions, calibrate)
        course = expectation.follow(place, index if status & Status.ERROR else None)
        if status & Status.BUSY:  # cut short: any part of each command may be done
            expectation.release(0)
        memory, inside = self.device.simulation.memory, mask(regions, MEMORY)
        changed = np.flatnonzero(~inside & (memory != image))
        _require(not changed.size, f"written outside of the regions, at {changed[:8]}")
        either = course.loose | np.any([one.target for one in course.behind], axis=0)
        wrong = (memory != course.memory) & ~(either & (memory == course.other)) & ~(course.free & inside)
        found = f"{status!r}, error {error} at {index}; {course.fate}"
        _require(not wrong.any(), f"wrong bytes at {np.flatnonzero(wrong)[:8]}: {found}")
        fate = course.fate + _check_behind(memory, course) + (", in part" if course.loose.any() else "")
        fate += ", freely" if course.free.any() else ""
        if status & Status.BUSY or (course.open and (status == Status.DONE or index > course.index)):
            return fate + ", error not compared"
        if course.codes:
            right = status == Status.ERROR and error in course.codes and index == course.index
            _require(right, f"{found}, where it should be {sorted(course.codes)} at {course.index}")
        else:
            _require(status == Status.DONE, f"{found}, where the golden model ends")
            if not course.free.any():
                self._compare_tables(commands)
        return fate

    def _compare_tables(self, commands):
        for tensor in self._tensors(commands):
            found, expected = self.device.exponents(tensor), self.golden.get_exponents(tensor)
            if tensor in self.scales:
                table = self.golden.exponents
                found, expected = self.device.scale(tensor), (table.cur[tensor], table.next[tensor])
            _require(found == expected, f"tensor {tensor} has the exponents {found}, not {expected}")
        counters = self.device.counters(0)
        for name in COUNTED:
            expected = self.golden.counters[0][name]
            _require(counters[name] == expected, f"{name} counts {counters[name]}, not {expected}")


def _check_behind(memory: np.ndarray, course: Course) -> str:
    """Require each command after the failing one to be written in full or not at all; returns a label for the case."""
    executed = {}
    for one in course.behind:
        unwritten, written = ((memory == state)[one.target].all() for state in (course.memory, course.other))
        _require(unwritten or written, f"command {one.index} behind the failing one is written by half")
        lacking = [k for k in sorted(one.awaited) if not executed.get(k, True)]
        _require(unwritten or not lacking, f"command {one.index} is executed without {lacking}, which it waits for")
        executed[one.index] = written
    return f", {BEHIND[any(executed.values())]}" if executed else ""


def _decoded(words):
    """The command, None for one of an unknown opcode that isn't skipped."""
    try:
        return Command.decode(words)
    except ValueError:
        mask = command_field("phase_mask")
        phase_mask = mask.decode(words[mask.word])
        return None if phase_mask & 1 else Command(Opcode.HEADER, {"phase_mask": phase_mask})


def _regions(config, draw, commands, place):
    """Write regions: everything, or what the commands write, the spoilt one's cut, in two pieces or missing."""
    own, before, behind = [], [], []
    for index, command in enumerate(commands):
        if is_work(command, config):
            results = [(runs.address, runs.end) for runs in writes(command, config).values()]
            (own if index == place else before if index < place else behind).extend(results)
    if not own or draw.random() < 0.35:
        return [(BASE, draw.choice((MEMORY, MEMORY, LAST)))]
    kind, which = draw.choice(("exact", "exact", "exact", "cut", "cut", "cut", "two", "none")), draw.randrange(len(own))
    start, end = own[which]
    if kind == "cut":
        cut = draw.choice((1, 2, config.beat_bytes, draw.randint(1, max(1, end - start))))
        own[which] = (start + cut, end) if draw.random() < 0.3 else (start, end - cut)
    elif kind == "two":
        middle = draw.randint(start, end)
        own[which : which + 1] = [(start, middle), (middle, end)]
    elif kind == "none":
        del own[which]
    others = [part for part in (before, behind) if part]
    if others and len(own) + len(others) > N_REGIONS:
        others = [before + behind]
    if len(own) + len(others) > N_REGIONS:  # an ADAM's: those that aren't cut, together
        whole = own[:which] if which > 1 else own[-2:]
        own = [part for part in own if part not in whole] + [(min(whole)[0], max(whole)[1])]
    own = [(min(low for low, _ in part), max(high for _, high in part)) for part in others] + own
    starts = [min(max(BASE, low), LAST) for low, _ in own]
    regions = [(low, max(low, min(high, LAST))) for low, (_, high) in zip(starts, own, strict=True)][:N_REGIONS]
    draw.shuffle(regions)
    return regions


def _open(names: tuple[str, ...], top: Path | None) -> Case:
    """One of the configurations for each case; with ``top`` the first."""
    found = [Malformed(configured(name), top) for name in (names[:1] if top else names)]
    return lambda index, rng: found[index % len(found)](index, rng)


MALFORMED = Kind("random_commands", partial(_open, ("tiny",)), 100_000, "random_command_failures", shares=shares)

PREDICTING = Kind(
    "random_predicting_commands", partial(_open, PREDICTING_DESIGNS), 50_000, "random_predicting_command_failures",
    PREDICTING_DESIGNS, shares,
)  # fmt: skip
