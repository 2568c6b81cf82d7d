"""Frames of the host link in software: bodies to bytes, bytes to bodies; see :mod:`adagp.spec.link`."""

import zlib

from ...spec.link import ANSWER, CRC_BYTES, ESCAPE, FLAG, FLIP, MAX_PAYLOAD, Kind, n_bytes

__all__ = ["LONGEST", "Unframer", "frame", "request"]

LONGEST = 2 * (n_bytes(ANSWER) + MAX_PAYLOAD + CRC_BYTES)
"""Bytes between the flags of an answer at most: all of its body and CRC escaped."""

_FLAG = bytes([FLAG])
_PLAIN = {byte: bytes([ESCAPE, byte ^ FLIP]) for byte in (ESCAPE, FLAG)}  # the escape first, which is in the others


def frame(body: bytes) -> bytes:
    """The frame of a body, flags included."""
    inside = body + zlib.crc32(body).to_bytes(CRC_BYTES, "little")
    for byte, escaped in _PLAIN.items():
        inside = inside.replace(bytes([byte]), escaped)
    return _FLAG + inside + _FLAG


def request(sequence: int, kind: Kind, length: int, address: int, payload: bytes = b"") -> bytes:
    """The body of a request."""
    return bytes([sequence, kind]) + length.to_bytes(2, "little") + address.to_bytes(4, "little") + payload


def _checked(inside: bytes) -> bytes | None:
    """The body in what was between two flags, or None if it isn't one."""
    if len(inside) > LONGEST:
        return None
    body, escaped = bytearray(), False
    for part in inside.split(bytes([ESCAPE])):
        if escaped:
            if not part:
                return None
            body.append(part[0] ^ FLIP)
        body += part[escaped:]
        escaped = True
    crc = int.from_bytes(body[-CRC_BYTES:], "little")
    body = body[:-CRC_BYTES]
    return bytes(body) if len(body) >= n_bytes(ANSWER) and crc == zlib.crc32(body) else None


class Unframer:
    """Takes bytes as they come and returns the bodies of answers.

    Attributes
    ----------
    bad: frames so far that were none, were too long, or had a wrong CRC
    held: bytes kept of a frame whose end hasn't come, at most LONGEST + 1 however many come
    """

    def __init__(self) -> None:
        self.bad = 0
        self._inside = bytearray()

    @property
    def held(self) -> int:
        return len(self._inside)

    def feed(self, received: bytes) -> list[bytes]:
        """The bodies, of at least an answer's length, that are complete with these bytes."""
        *ends, rest = received.split(_FLAG)
        bodies = []
        for end in ends:
            self._keep(end)
            if self._inside:
                body = _checked(bytes(self._inside))
                self.bad += body is None
                bodies += [] if body is None else [body]
            self._inside.clear()
        self._keep(rest)
        return bodies

    def _keep(self, part: bytes) -> None:
        self._inside += part[: LONGEST + 1 - len(self._inside)]
