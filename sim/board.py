"""A simulated board: the accelerator with its host link, whose serial line is a pseudo-terminal.

``python -m adagp.sim.board --preset tiny`` prints the terminal's path, for ``adagp train --device board --port PATH``,
and runs until it is interrupted. Every bit on the line is simulated; bytes can be lost, changed, late or doubled.
"""

import argparse
import ctypes
import os
import select
import sys
import tty
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from ..spec.config import VARIANTS, Config
from ..spec.dram_part import DramPart
from ..spec.presets import PRESETS, preset
from ..spec.validation import ConfigError
from .build import BuildError, library
from .line_noise import PAUSE, LineNoise
from .native_types import Settings, settings
from .simulation import SimulationError

__all__ = ["CYCLES_PER_BIT", "Board", "main", "serve"]

CYCLES_PER_BIT = 4
"""Few cycles, since a simulated board spends most of its time waiting for bits."""

BITS = 10
"""Bits on the line for a byte."""

STEP_CYCLES = 1000
"""Cycles between two looks at the terminal."""

IDLE_CYCLES = 4_000_000
"""Cycles without a byte after which the board stands still until the next one; no host needs a longer silence."""


@cache
def _load(path):
    native = ctypes.CDLL(str(path))
    handle, unsigned, u64 = ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint64
    for name, result, arguments in (
        ("open", handle, (handle, u64, ctypes.POINTER(Settings), unsigned)),
        ("close", None, (handle,)),
        ("exchange", ctypes.c_int, (handle, handle, unsigned, u64, ctypes.c_char_p, unsigned)),
        ("waiting", unsigned, (handle,)),
        ("cycles", u64, (handle,)),
        ("message", ctypes.c_char_p, (handle,)),
    ):
        function = getattr(native, f"board_{name}")
        function.restype, function.argtypes = result, arguments
    return native


class Board:
    """A board of ``config`` after power-up, with its memory of ``memory_bytes`` (default: all of the part's).

    ``memory`` is the DRAM as bytes, shared with the running model. Raises BuildError.
    """

    def __init__(
        self, config: Config, part: DramPart | None = None, *, cycles_per_bit: int = CYCLES_PER_BIT,
        memory_bytes: int | None = None, stall: float = 0.0, seed: int = 1,
    ):  # fmt: skip
        self.config, self.cycles_per_bit = config, cycles_per_bit
        part = part or config.dram
        self.memory = np.zeros(memory_bytes or part.capacity_bytes, np.uint8)
        self._room = ctypes.create_string_buffer(4096)
        self._native = _load(library(config, cycles_per_bit=cycles_per_bit))
        self._handle = self._native.board_open(
            self.memory.ctypes.data, self.memory.nbytes, settings(config, part, stall, seed), cycles_per_bit
        )

    def close(self) -> None:
        """End the simulation; ``memory`` stays readable."""
        if self._handle:
            self._native.board_close(self._handle)
        self._handle = None

    def exchange(self, sent: Sequence[int], cycles: int = STEP_CYCLES) -> bytes:
        """Put bytes and pauses in the queue to the board, let ``cycles`` pass, return bytes that came from it.

        Raises SimulationError when the accelerator violates the memory port's protocol.
        """
        queue = np.array(list(sent), np.uint16)
        n = self._native.board_exchange(
            self._handle, queue.ctypes.data, queue.size, cycles, self._room, len(self._room)
        )
        if n < 0:
            raise SimulationError(f"{self._native.board_message(self._handle).decode()} (cycle {self.cycles})")
        return self._room.raw[:n]

    @property
    def waiting(self) -> int:
        """Bytes and pauses in the queue to the board."""
        return self._native.board_waiting(self._handle)

    @property
    def cycles(self) -> int:
        """Clock cycles since the simulation was opened."""
        return self._native.board_cycles(self._handle)


class _Terminal:
    """The master's side of a pseudo-terminal; it never waits until the other side has room."""

    def __init__(self, descriptor: int):
        self._descriptor, self._rest = descriptor, b""
        os.set_blocking(descriptor, False)

    def read(self, seconds: float) -> bytes:
        """Bytes that have come, after waiting for at most so many seconds."""
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        return os.read(self._descriptor, 4096) if ready else b""

    def write(self, data: bytes) -> None:
        self._rest += data
        if self._rest and select.select([], [self._descriptor], [], 0)[1]:
            self._rest = self._rest[os.write(self._descriptor, self._rest) :]


def serve(
    board: Board, descriptor: int, stopped: Callable[[], bool], there: LineNoise | None = None,
    back: LineNoise | None = None,
) -> None:  # fmt: skip
    """Run the board with its line at the master's side of a pseudo-terminal, until ``stopped()``.

    ``there``, ``back``: noise on the way to the board and from it.
    """
    terminal, there, back = _Terminal(descriptor), there or LineNoise(), back or LineNoise()
    byte_cycles = BITS * board.cycles_per_bit
    coming: deque[int] = deque()
    resumes = last = 0  # cycles: when a pause in what comes from the board is over, when the line was last in use
    while not stopped():
        sent = terminal.read(0.1 if board.cycles - last > IDLE_CYCLES and not coming else 0)
        came = board.exchange(there.apply(sent))
        coming.extend(back.apply(came))
        if sent or came or board.waiting:
            last = board.cycles
        ready = bytearray()
        while coming and board.cycles >= resumes:
            value = coming.popleft()
            if value < PAUSE:
                ready.append(value)
            else:
                resumes = board.cycles + (value - PAUSE + 1) * byte_cycles
        terminal.write(bytes(ready))


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m adagp.sim.board", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--preset", default="tiny", help=f"accelerator: {', '.join(PRESETS)} (default: tiny)")
    parser.add_argument("--variant", default="baseline", choices=VARIANTS, help="design (default: baseline)")
    parser.add_argument("--path", type=Path, help="a symbolic link to the terminal, made here and removed at the end")
    parser.add_argument(
        "--cycles-per-bit", type=int, default=CYCLES_PER_BIT,
        help="clock cycles that a bit on the line lasts (default: %(default)s, the least)",
    )  # fmt: skip
    for name, what in (
        ("drop", "is lost"), ("corrupt", "is another"), ("delay", "is late, with all after it"),
        ("duplicate", "comes twice"),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=float, default=0.0, help=f"chance in 0..1 that a byte {what}")
    parser.add_argument("--seed", type=int, default=1, help="seed of this noise (default: 1)")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``python -m adagp.sim.board``."""
    arguments = _arguments(argv)
    chances = {name: getattr(arguments, name) for name in ("drop", "corrupt", "delay", "duplicate")}
    try:
        there, back = (LineNoise(**chances, seed=2 * arguments.seed + direction) for direction in (0, 1))
        config = replace(preset(arguments.preset), variant=arguments.variant)
        board = Board(config, cycles_per_bit=arguments.cycles_per_bit)
    except (ConfigError, BuildError, ValueError) as error:
        sys.exit(f"error: {error}")
    master, slave = os.openpty()
    tty.setraw(slave)  # stays open: otherwise the line hangs up when a host closes it
    path = Path(os.ttyname(slave))
    if arguments.path is not None:
        arguments.path.unlink(missing_ok=True)
        arguments.path.symlink_to(path)
        path = arguments.path
    options = f" --preset {arguments.preset}" + f" --variant {arguments.variant}" * (arguments.variant != "baseline")
    print(f"{path}  (adagp train --device board --port {path}{options}; end with Ctrl-C)", flush=True)
    try:
        serve(board, master, lambda: False, there, back)
    except KeyboardInterrupt:
        print(f"{board.cycles:,} cycles; to the board {there.counts}, from it {back.counts}", file=sys.stderr)
    except SimulationError as error:
        sys.exit(f"failed: {error}")
    finally:
        if arguments.path is not None:
            arguments.path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
