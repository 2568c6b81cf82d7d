"""Frames of the host link in software: bodies to bytes, bytes to bodies; see :mod:`adagp.spec.link`."""

import zlib

from ...spec.link import ANSWER, CRC_BYTES, ESCAPE, FLAG, FLIP, Kind, n_bytes

__all__ = ["Unframer", "frame", "request"]

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
    """Takes bytes as they come. ``bad`` counts frames that were none, or whose CRC was wrong."""

    def __init__(self) -> None:
        self.bad = 0
        self._rest = b""

    def feed(self, received: bytes) -> list[bytes]:
        """The bodies of at least an answer's length that are complete with these bytes."""
        *frames, self._rest = (self._rest + received).split(_FLAG)
        bodies = [_checked(inside) for inside in frames if inside]
        self.bad += bodies.count(None)
        return [body for body in bodies if body is not None]
