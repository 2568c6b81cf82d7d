"""A DRAM behind a PHY with a known eye in each lane, as its registers show it; and a memory with faults."""

import random
from dataclasses import dataclass, field

import numpy as np
from adagp.boards.memory.controller import COMMANDS, CONTROLS, DramController

ROW_OPEN = COMMANDS["ras"] | COMMANDS["cs"]
PRECHARGE = ROW_OPEN | COMMANDS["we"]
MODE = PRECHARGE | COMMANDS["cas"]
WRITE = COMMANDS["cas"] | COMMANDS["we"] | COMMANDS["cs"] | COMMANDS["wrdata"]
READ = COMMANDS["cas"] | COMMANDS["cs"] | COMMANDS["rddata"]
CALIBRATION = COMMANDS["we"] | COMMANDS["cs"]


@dataclass
class Lane:
    """Works with ``bitslip`` at delays ``first`` to ``last`` (none if first > last), where its bursts are ``seen``."""

    bitslip: int
    first: int
    last: int
    seen: bool = True
    now: list[int] = field(default_factory=lambda: [3, 5])  # bitslip and delay: whatever was there before

    @property
    def works(self) -> bool:
        return self.now[0] == self.bitslip and self.first <= self.now[1] <= self.last


class PhyModel:
    """The registers of a LiteDRAM core; ``begun`` lists what came before the first row was opened."""

    def __init__(self, controller: DramController, lanes: list[Lane], seed: int):
        self.controller, self.lanes, self.rng = controller, lanes, random.Random(seed)
        self.places = {
            offset + 4 * word: (name, words - 1 - word)
            for name, (offset, words) in controller.registers.items() for word in range(words)
        }  # fmt: skip
        self.values = dict.fromkeys(controller.registers, 0)
        self.memory: dict[int, int] = {}
        self.row: int | None = None
        self.begun: list[tuple[int, int, int]] = []
        self.reads = 0

    def read(self, offset: int) -> int:
        name, word = self.places[offset]
        return self.values[name] >> 32 * word & 0xFFFFFFFF

    def write(self, offset: int, value: int) -> None:
        name, word = self.places[offset]
        mask = 0xFFFFFFFF << 32 * word
        self.values[name] = self.values[name] & ~mask | value << 32 * word
        phase, _, action = name.removeprefix("sdram_dfii_pi").partition("_")
        if action == "command_issue":
            self.command(int(phase))
        elif name == "sdram_dfii_control" and not value & CONTROLS["sel"]:
            self.note(value)
        elif name.startswith("ddrphy_rdly_dq"):
            self.adjust(name.removeprefix("ddrphy_rdly_dq_"))
        elif name == "ddrphy_burstdet_clr":
            self.values["ddrphy_burstdet_seen"] = 0

    def note(self, value):
        if self.row is None and not self.memory:
            self.begun.append((self.values["sdram_dfii_pi0_address"], self.values["sdram_dfii_pi0_baddress"], value))

    def adjust(self, action):
        for number, lane in enumerate(self.lanes):
            if self.values["ddrphy_dly_sel"] >> number & 1:
                slip, delay = lane.now
                lane.now = {
                    "rst": [slip, 0], "inc": [slip, (delay + 1) % self.controller.delays],
                    "bitslip_rst": [0, delay], "bitslip": [(slip + 1) % self.controller.bitslips, delay],
                }[action]  # fmt: skip

    def command(self, phase):
        values, controller = self.values, self.controller
        command = values[f"sdram_dfii_pi{phase}_command"]
        column = values[f"sdram_dfii_pi{phase}_address"]
        assert not values["sdram_dfii_control"] & CONTROLS["sel"], "a command while the controller has the memory"
        if command == PRECHARGE:
            self.row = None
        elif command == ROW_OPEN:
            assert phase == 0 and self.row is None
            self.row = column
        elif command == WRITE:
            assert phase == controller.write_phase and self.row is not None and column % 8 == 0
            data = (values[f"sdram_dfii_pi{n}_wrdata"] << n * controller.phase_bits for n in range(controller.phases))
            self.memory[column] = sum(data)
        elif command == READ:
            assert phase == controller.read_phase and self.row is not None and not values["ddrphy_dly_sel"]
            self.fetch(self.memory[column])
        else:
            assert command in (MODE, CALIBRATION), f"command {command:#x}"
            self.note(command)

    def fetch(self, data):
        self.reads += 1
        controller, seen = self.controller, 0
        for number, lane in enumerate(self.lanes):
            pins = ((1 << controller.lane_bits) - 1) << number * controller.lane_bits
            bits = controller.phases * controller.phase_bits
            mask = sum(pins << first for first in range(0, bits, controller.data_bits))
            if not lane.works:
                data ^= self.rng.getrandbits(bits) & mask
            seen |= lane.seen << number
        for n in range(controller.phases):
            self.values[f"sdram_dfii_pi{n}_rddata"] = (
                data >> n * controller.phase_bits & (1 << controller.phase_bits) - 1
            )
        if "ddrphy_burstdet_seen" in self.values:
            self.values["ddrphy_burstdet_seen"] = seen


class MemoryModel:
    """A memory in which address bits do nothing (``dead``), data lines are stuck at 1 (``stuck``, of a word), or a
    range of addresses forgets what was written (``lost``)."""

    def __init__(self, size: int, lanes: int, dead: int = 0, stuck: int = 0, lost: range = range(0)):
        self.size, self.lanes, self.dead, self.stuck, self.lost = size, lanes, dead, stuck, lost
        self.cells: dict[int, int] = {}

    def write(self, address: int, array: np.ndarray) -> None:
        assert address >= 0 and address + array.nbytes <= self.size
        for place, value in enumerate(array.view(np.uint8), address):
            self.cells[place & ~self.dead] = int(value)

    def read(self, address: int, n_bytes: int) -> np.ndarray:
        assert address >= 0 and address + n_bytes <= self.size
        places = range(address, address + n_bytes)
        stuck = [self.stuck >> 8 * (place % self.lanes) & 0xFF for place in places]
        return np.array(
            [
                0 if place in self.lost else self.cells[place & ~self.dead] | bits
                for place, bits in zip(places, stuck, strict=True)
            ],
            np.uint8,
        )
