"""Words of the accumulator that a network's GEMMs write and read on the array, by the descriptors of their tiles."""

from collections.abc import Iterable

from ...host.estimate.compute import accumulator_words
from ...spec.commands import Command
from ...spec.config import Config
from ...spec.microcode.descriptors import VectorMode
from ...spec.microcode.machine import constants, task
from ...spec.microcode.program import tile_program
from ...spec.opcodes import GEMMS

__all__ = ["words_of"]


class _Counter:
    """A machine for the tile program that counts what GEMMs do to the accumulator."""

    def __init__(self, config: Config):
        self.config = config
        self.written = self.read = 0

    def compute(self, **d: int) -> None:
        if d["mode"] == VectorMode.GEMM:
            written, read = accumulator_words(self.config, d)
            self.written += written
            self.read += read

    def fill(self, **_: int) -> None:
        """Nothing is filled here."""

    def drain(self, **_: int) -> None:
        """Nor drained."""

    def store(self, **_: int) -> None:
        """Nor stored."""


def words_of(commands: Iterable[Command], config: Config) -> tuple[int, int]:
    """Words that all GEMMs among the commands write, and words that they read to add to them."""
    counter, names = _Counter(config), constants(config)
    for command in commands:
        if command.opcode in GEMMS:
            values = {name: getattr(command, name) for name in command.fields}
            tile_program(task({**values, "opcode": int(command.opcode)}), names, counter)
    return counter.written, counter.read
