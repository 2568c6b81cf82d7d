"""The host link: requests and answers as frames on a serial line, as data.

A frame is ``FLAG``, a body, the body's CRC-32 (low byte first), ``FLAG``; within it, ``ESCAPE`` and the byte with
``FLIP`` stand for a byte that is FLAG or ESCAPE. So a FLAG is never data: whatever came before one, what follows is
understood. Numbers are little endian.
"""

from dataclasses import dataclass
from enum import IntEnum, IntFlag

__all__ = [
    "ANSWER", "BAUD", "CRC_BYTES", "ESCAPE", "FLAG", "FLIP", "IDENTITY", "LINK_VERSION", "MAX_PAYLOAD", "REQUEST",
    "WINDOW", "Kind", "Outcome", "Part", "n_bytes",
]  # fmt: skip

LINK_VERSION = 1
"""Version of everything in this file; HELLO and its answer's first two bytes stay as they are in all versions."""

BAUD = 3_000_000
"""Rate of the line unless another is given: common USB bridges reach it."""

FLAG = 0x7E
ESCAPE = 0x7D
FLIP = 0x20

CRC_BYTES = 4
"""CRC-32/ISO-HDLC, the one of zlib, Ethernet and PNG."""

MAX_PAYLOAD = 1024
"""Bytes that a request writes at most; a host asks for no more at a time either."""

WINDOW = 8
"""Requests that a host sends at most before the first of them is answered."""


class Kind(IntEnum):
    """Kinds of requests. Odd kinds above WAIT write and carry a payload; a half of the rest is the space."""

    HELLO = 0
    """Begin a session. Answered by an identity; the next request has the following number."""
    WAIT = 1
    """Answered when the interrupt is raised, `address` cycles have passed, or another request has come."""
    READ_CSR = 2
    """Read the accelerator's registers."""
    WRITE_CSR = 3
    """Write one of the accelerator's registers."""
    READ_DRAM_CSR = 4
    """Read the memory controller's registers."""
    WRITE_DRAM_CSR = 5
    """Write one of the memory controller's registers."""
    READ_MEMORY = 6
    """Read memory."""
    WRITE_MEMORY = 7
    """Write memory."""

    @property
    def writes(self) -> bool:
        """True if it has a payload, and an effect that must not come twice."""
        return self > Kind.WAIT and bool(self & 1)


class Outcome(IntFlag):
    """Bits of an answer's last byte."""

    IRQ = 1
    """The interrupt is raised."""
    FAULT = 2
    """A bus answered with an error, now or in any request since HELLO."""
    REPEATED = 4
    """The request was done before: it writes, so nothing was done this time."""
    EARLY = 8
    """Requests before it are missing, so nothing was done; `sequence` is that of the first one missing."""
    STRANGER = 16
    """No HELLO has come since the reset, so nothing was done."""


@dataclass(frozen=True)
class Part:
    """``size`` bytes of a body; 0: as many as there are."""

    name: str
    size: int
    doc: str


REQUEST = (
    Part("sequence", 1, "number of the request, one more (modulo 256) than that of the one before"),
    Part("kind", 1, "see kinds"),
    Part("length", 2, "bytes to read or write; 4 for a register"),
    Part("address", 4, "byte address; of WAIT, cycles"),
    Part("payload", 0, "what is to be written"),
)

ANSWER = (
    Part("sequence", 1, "that of the request"),
    Part("kind", 1, "that of the request"),
    Part("payload", 0, "what was read; of HELLO, the identity"),
    Part("outcome", 1, "see outcomes"),
)

IDENTITY = (
    Part("link_version", 2, "version of the protocol"),
    Part("max_payload", 2, "bytes that one request may write"),
    Part("clock_hz", 4, "clock of the accelerator"),
    Part("config_hash", 4, "digest of its configuration, as in register CONFIG_HASH"),
)


def n_bytes(parts: tuple[Part, ...]) -> int:
    """Bytes of a body without its payload."""
    return sum(part.size for part in parts)
