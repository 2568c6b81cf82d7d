"""Frames in software: bodies by hand, and a line that sends rubbish without an end."""

import random

import pytest
from adagp.host.devices.frames import LONGEST, Unframer, frame
from adagp.spec.link import ESCAPE, FLAG, MAX_PAYLOAD

SEED = 11
BY_HAND = bytes([0x7E, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x26, 0x39, 0xF4, 0xCB, 0x7E])
"""CRC-32/ISO-HDLC of the digits 1 to 9 is CBF43926, by the catalogue of CRCs."""


def in_pieces(data, size):
    return [data[start : start + size] for start in range(0, len(data), size)]


def test_a_frame_by_hand():
    assert frame(b"123456789") == BY_HAND
    assert Unframer().feed(BY_HAND) == [b"123456789"]


@pytest.mark.parametrize("size", [1, 7, 5000])
def test_bodies_come_back_in_pieces_of_any_size(size):
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    longest = bytes([FLAG, ESCAPE]) + bytes([FLAG]) * MAX_PAYLOAD + b"\x00"
    bodies = [longest, *(rng.randbytes(rng.randrange(3, 40)) for _ in range(20)), b"\x00\x01\x02"]
    sent = b"".join(frame(body) for body in bodies)
    unframer = Unframer()
    found = [body for piece in in_pieces(sent, size) for body in unframer.feed(piece)]
    assert found == bodies and unframer.bad == 0 and unframer.held == 0
    assert LONGEST // 2 < len(frame(longest)) - 2 <= LONGEST


def test_a_line_without_flags_costs_no_more_than_its_bytes():
    """Kept bytes stay below a bound, and so does the cost of each further piece."""
    unframer, most, pieces = Unframer(), 0, in_pieces(b"\x55" * (100 * LONGEST), 64)
    for piece in pieces:
        assert unframer.feed(piece) == []
        most = max(most, unframer.held)
    assert LONGEST < most <= LONGEST + 1
    assert unframer.feed(BY_HAND) == [b"123456789"]
    assert unframer.bad == 1 and unframer.held == 0


def test_a_frame_that_is_too_long_is_none():
    body = bytes(LONGEST - 3)
    assert len(frame(body)) - 2 == LONGEST + 1
    unframer = Unframer()
    assert unframer.feed(frame(body) + BY_HAND) == [b"123456789"] and unframer.bad == 1
    assert unframer.feed(frame(body[1:])) == [body[1:]] and unframer.bad == 1
