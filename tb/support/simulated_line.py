"""A board's line without a terminal: in the board's own time, so that nothing depends on how fast it is simulated."""

from collections import deque

from adagp.sim.board import BITS
from adagp.sim.line_noise import PAUSE, LineNoise

__all__ = ["SimulatedLine"]

STEP_CYCLES = 200


class SimulatedLine:
    """A :class:`~adagp.host.devices.port.SerialPort` to a :class:`~adagp.sim.board.Board`, with noise there and back.

    ``cut_at``: the bytes to the board after which nothing passes any more, in either direction.
    """

    def __init__(self, board, there=None, back=None, cut_at=None):
        self.board, self.there, self.back, self.cut_at = board, there or LineNoise(), back or LineNoise(), cut_at
        self.timeout, self.sent = 0.0, 0
        self._waited = self._resumes = 0
        self._to_send, self._coming = [], deque()

    @property
    def cut(self):
        return self.cut_at is not None and self.sent > self.cut_at

    @property
    def in_waiting(self):
        return 0

    def clock(self):
        return (self.board.cycles + self._waited) / self.board.config.clock_hz

    def write(self, data):
        self.sent += len(data)
        if not self.cut:
            self._to_send += self.there.apply(data)

    def read(self, size=1):
        end = self.clock() + self.timeout
        while not self.cut:
            self._coming.extend(self.back.apply(self.board.exchange(self._to_send, STEP_CYCLES)))
            self._to_send = []
            taken = self._arrived()
            if taken or self.clock() >= end:
                return taken
        self._waited += self.timeout * self.board.config.clock_hz
        return b""

    def _arrived(self):
        taken = bytearray()
        while self._coming and self.board.cycles >= self._resumes:
            value = self._coming.popleft()
            if value < PAUSE:
                taken.append(value)
            else:
                self._resumes = self.board.cycles + (value - PAUSE + 1) * BITS * self.board.cycles_per_bit
        return bytes(taken)

    def close(self):
        pass
