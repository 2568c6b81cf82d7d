"""Start of a board's memory by the host: DDR3's first commands, calibration of the PHY, a memory test.

There is no processor in the FPGA: every step is a few register accesses over the link. The host is thousands of times
slower than the memory, so a row stays open while delays are tried: what is read is in the sense amplifiers, and needs
no refresh there.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from .controller import COMMANDS, CONTROLS, DramController

__all__ = ["DramStartError", "Eye", "Phy", "Registers", "close", "start"]

PATTERNS = 3
"""Random bursts that must be read without an error for a delay to work."""

RESET_SECONDS = 0.001
"""JEDEC asks for 200 us of reset (JESD79-3, 3.3.1)."""

READ_SECONDS = 1e-6
"""From a read's command until its data are surely in the registers, some twenty clocks of the controller."""

BURST_COLUMNS = 8


class DramStartError(RuntimeError):
    """The memory can't be started; the message says which byte lane fails, and how."""


class Registers(Protocol):
    """32-bit accesses to the DRAM controller's registers by byte offset."""

    def read(self, offset: int) -> int: ...

    def write(self, offset: int, value: int) -> None: ...


@dataclass(frozen=True)
class Eye:
    """The eye of a lane: it reads well with delays ``first`` to ``last`` at a bitslip; ``delay`` is used."""

    lane: int
    bitslip: int
    first: int
    last: int

    @property
    def delay(self) -> int:
        return (self.first + self.last) // 2

    @property
    def width(self) -> int:
        return self.last - self.first + 1


def start(
    bus: Registers,
    controller: DramController,
    *,
    progress: Callable[[float], None] = lambda share: None,
    sleep: Callable[[float], None] = time.sleep,
    seed: int = 1,
) -> tuple[Eye, ...]:
    """Initialise and calibrate the memory, and open the accelerator's port to it; returns each lane's eye.

    ``progress`` is told the share of calibration that is done. Raises DramStartError if a lane has no eye; the port
    then stays closed.
    """
    phy = Phy(bus, controller, sleep, seed)
    phy.close()
    phy.initialise()
    eyes = phy.calibrate(progress)
    phy.open()
    return eyes


def close(bus: Registers, controller: DramController) -> None:
    """Close the accelerator's port to the memory, and say so by the board's lights."""
    phy = Phy(bus, controller, time.sleep, seed=1)
    phy.close()
    phy.write("ddrctrl_init_error", 1)


class Phy:
    """The PHY and the memory behind it, through the registers that drive the memory's pins."""

    def __init__(self, bus, controller, sleep, seed):
        self.bus, self.controller, self.sleep = bus, controller, sleep
        self.bits = controller.phases * controller.phase_bits
        rng = random.Random(seed)
        self.patterns = [rng.getrandbits(self.bits) for _ in range(PATTERNS)]
        self.detects = "ddrphy_burstdet_seen" in controller.registers

    def write(self, name: str, value: int) -> None:
        offset, words = self.controller.register(name)
        for word in range(words):
            self.bus.write(offset + 4 * word, value >> 32 * (words - 1 - word) & 0xFFFFFFFF)

    def read(self, name: str) -> int:
        offset, words = self.controller.register(name)
        value = 0
        for word in range(words):
            value = value << 32 | self.bus.read(offset + 4 * word)
        return value

    def command(self, phase: int, *pins: str) -> None:
        """Give the memory a command in one of the clocks of a controller's cycle."""
        self.write(f"sdram_dfii_pi{phase}_command", sum(COMMANDS[pin] for pin in pins))
        self.write(f"sdram_dfii_pi{phase}_command_issue", 1)

    def place(self, phase: int, address: int, bank: int = 0) -> None:
        self.write(f"sdram_dfii_pi{phase}_address", address)
        self.write(f"sdram_dfii_pi{phase}_baddress", bank)

    def adjust(self, action: str, lane: int | None = None) -> None:
        """Do something to the delay or bitslip of a lane, or of all. No data may cross it meanwhile."""
        self.write("ddrphy_dly_sel", 1 << lane if lane is not None else (1 << self.controller.lanes) - 1)
        self.write(f"ddrphy_{action}", 1)
        self.write("ddrphy_dly_sel", 0)

    def close(self) -> None:
        self.write("ddrctrl_init_done", 0)
        self.write("ddrctrl_init_error", 0)

    def open(self) -> None:
        self.write("sdram_dfii_control", CONTROLS["sel"])
        self.write("ddrctrl_init_done", 1)

    def initialise(self) -> None:
        """Reset the PHY and the memory, and set its mode registers."""
        if "ddrphy_rst" in self.controller.registers:
            self.write("ddrphy_rst", 1)
            self.write("ddrphy_rst", 0)
        self.write("sdram_dfii_control", 0)
        self.sleep(RESET_SECONDS)
        for step in self.controller.init:
            self.place(0, step.address, step.bank)
            if step.control:
                self.write("sdram_dfii_control", step.value)
            else:
                self.write("sdram_dfii_pi0_command", step.value)
                self.write("sdram_dfii_pi0_command_issue", 1)
            self.sleep(step.cycles / self.controller.clock_hz)

    def calibrate(self, progress) -> tuple[Eye, ...]:
        """Find each lane's widest eye, and set its middle."""
        controller = self.controller
        self.fill()
        wrong = []
        for bitslip in range(controller.bitslips):
            self.adjust("rdly_dq_bitslip" if bitslip else "rdly_dq_bitslip_rst")
            wrong.append(self._sweep())
            progress((bitslip + 1) / controller.bitslips)
        self.command(0, "ras", "we", "cs")
        eyes = tuple(self._choose(lane, wrong) for lane in range(controller.lanes))
        for eye in eyes:
            self._set(eye)
        self._check(eyes)
        return eyes

    def fill(self):
        """Open row 0, anew if it was open, and write the patterns to it."""
        self.place(0, 0)
        self.command(0, "ras", "we", "cs")
        self.command(0, "ras", "cs")
        phase = self.controller.write_phase
        for column, pattern in enumerate(self.patterns):
            for n in range(self.controller.phases):
                self.write(f"sdram_dfii_pi{n}_wrdata", pattern >> n * self.controller.phase_bits & self._mask())
            self.place(phase, column * BURST_COLUMNS)
            self.command(phase, "cas", "we", "cs", "wrdata")

    def _mask(self):
        return (1 << self.controller.phase_bits) - 1

    def _sweep(self):
        """Wrong bits of each lane, for each delay."""
        self.adjust("rdly_dq_rst")
        found = []
        for delay in range(self.controller.delays):
            if delay:
                self.adjust("rdly_dq_inc")
            found.append(self.wrong())
        return found

    def wrong(self) -> list[int]:
        """Wrong bits of each lane in the patterns as they are read now."""
        controller = self.controller
        phase, wrong = controller.read_phase, [0] * controller.lanes
        self.place(phase, 0)
        for column, pattern in enumerate(self.patterns):
            if column:
                self.write(f"sdram_dfii_pi{phase}_address", column * BURST_COLUMNS)
            if self.detects:
                self.write("ddrphy_burstdet_clr", 1)
            self.command(phase, "cas", "cs", "rddata")
            self.sleep(READ_SECONDS)
            found = sum(
                self.read(f"sdram_dfii_pi{n}_rddata") << n * controller.phase_bits for n in range(controller.phases)
            )
            seen = self.read("ddrphy_burstdet_seen") if self.detects else -1
            for lane in range(controller.lanes):
                wrong[lane] += ((found ^ pattern) & self._pins(lane)).bit_count() + (~seen >> lane & 1)
        return wrong

    def _pins(self, lane):
        """The bits of a burst that a lane carries."""
        bits = ((1 << self.controller.lane_bits) - 1) << lane * self.controller.lane_bits
        return sum(bits << first for first in range(0, self.bits, self.controller.data_bits))

    def _choose(self, lane, wrong):
        eyes = [
            Eye(lane, bitslip, first, last)
            for bitslip, sweep in enumerate(wrong)
            for first, last in _runs([counts[lane] == 0 for counts in sweep])
        ]
        if eyes:
            return max(eyes, key=lambda eye: eye.width)
        pins = self.controller.pins(lane)
        least = min(counts[lane] for sweep in wrong for counts in sweep)
        bits = PATTERNS * self.bits // self.controller.lanes
        raise DramStartError(
            f"calibration: {pins} reads wrongly at every bitslip and delay; at the best of them {least} of {bits} bits "
            "are wrong: check the board's supply and clock, or build for a slower clock"
        )

    def _set(self, eye):
        for action, count in (("rdly_dq_bitslip", eye.bitslip), ("rdly_dq", eye.delay)):
            self.adjust(f"{action}_rst", eye.lane)
            for _ in range(count):
                self.adjust(action if action.endswith("slip") else f"{action}_inc", eye.lane)

    def _check(self, eyes: Sequence[Eye]) -> None:
        """With all lanes as they will be used: write and read once more."""
        self.patterns = [~pattern & ((1 << self.bits) - 1) for pattern in self.patterns]
        self.fill()
        wrong = self.wrong()
        self.command(0, "ras", "we", "cs")
        for eye in eyes:
            if wrong[eye.lane]:
                raise DramStartError(
                    f"calibration: {self.controller.pins(eye.lane)} has {wrong[eye.lane]} wrong bits at bitslip "
                    f"{eye.bitslip} and delay {eye.delay}, in the middle of delays {eye.first} to {eye.last}, all good"
                )


def _runs(works: list[bool]):
    """First and last place of each run of what works."""
    first = None
    for place, good in enumerate([*works, False]):
        if good and first is None:
            first = place
        elif not good and first is not None:
            yield first, place - 1
            first = None
