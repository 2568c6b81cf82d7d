"""The serial port that the host link needs, the identity of a board, and the link's statistics."""

from dataclasses import asdict, dataclass
from typing import Protocol

__all__ = ["Identity", "SerialPort", "Statistics"]


class SerialPort(Protocol):
    """A serial port, as pyserial's ``Serial``, with a clock: a simulated line has a time of its own."""

    timeout: float | None

    @property
    def in_waiting(self) -> int:
        """Bytes that have come."""

    def read(self, size: int = 1, /) -> bytes:
        """Up to ``size`` bytes, fewer when the timeout is over."""

    def write(self, data: bytes, /) -> int | None:
        """Send bytes."""

    def clock(self) -> float:
        """The time on which ``timeout`` is measured, in seconds."""


@dataclass
class Identity:
    """The answer of a board to HELLO; see :data:`adagp.spec.link.IDENTITY`."""

    link_version: int
    max_payload: int
    clock_hz: int
    config_hash: int


@dataclass
class Statistics:
    """Counts of a link since it was opened."""

    requests: int = 0
    round_trips: int = 0
    """Times that the host waited until all its requests were answered."""
    bytes_sent: int = 0
    bytes_received: int = 0
    payload_bytes: int = 0
    """Bytes of memory written and read."""
    bad_frames: int = 0
    """Frames received that were noise or had a wrong CRC."""
    lost_requests: int = 0
    """Requests that the board missed, as it said when a later one came."""
    time_outs: int = 0
    repeated: int = 0
    """Requests sent again."""

    def __str__(self) -> str:
        """One line for people."""
        return (
            f"{self.requests:,} requests, {self.bytes_sent:,} bytes sent, {self.bytes_received:,} received,"
            f" {self.bad_frames} bad frames, {self.time_outs} time-outs, {self.repeated} requests repeated"
        )

    to_dict = asdict
