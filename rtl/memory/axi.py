"""The AXI4 memory port: its signatures and its constants."""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.skid import Skid

__all__ = [
    "BEGUN",
    "BUFFERABLE_MODIFIABLE",
    "ID_BITS",
    "INCR",
    "OUTSTANDING",
    "AxiMaster",
    "AxiRead",
    "AxiWrite",
    "join_axi",
]

OUTSTANDING = 16
"""Most bursts under way in a direction."""

BEGUN = OUTSTANDING + Skid.ITEMS
"""Most unanswered bursts of one client: those under way, and those that wait in its skid."""

ID_BITS = 2
"""Bits that number up to four clients in a direction."""
INCR = 1
BUFFERABLE_MODIFIABLE = 0b0011


def _address(prefix, id_bits):
    """Members of an AR or AW channel."""
    return {
        f"{prefix}id": Out(id_bits), f"{prefix}addr": Out(32), f"{prefix}len": Out(8), f"{prefix}size": Out(3),
        f"{prefix}burst": Out(2), f"{prefix}cache": Out(4), f"{prefix}prot": Out(3),
        f"{prefix}valid": Out(1), f"{prefix}ready": In(1),
    }  # fmt: skip


def _read(config, id_bits=ID_BITS):
    return {
        **_address("ar", id_bits),
        "rid": In(id_bits), "rdata": In(config.port_width), "rresp": In(2), "rlast": In(1),
        "rvalid": In(1), "rready": Out(1),
    }  # fmt: skip


def _write(config, id_bits=ID_BITS):
    return {
        **_address("aw", id_bits),
        "wdata": Out(config.port_width), "wstrb": Out(config.beat_bytes), "wlast": Out(1),
        "wvalid": Out(1), "wready": In(1),
        "bid": In(id_bits), "bresp": In(2), "bvalid": In(1), "bready": Out(1),
    }  # fmt: skip


class AxiRead(wiring.Signature):
    """Read channels of an AXI4 master: INCR bursts of whole beats, the client's number as id."""

    def __init__(self, config: Config):
        super().__init__(_read(config))


class AxiWrite(wiring.Signature):
    """Write channels of an AXI4 master: INCR bursts of whole beats, the client's number as id."""

    def __init__(self, config: Config):
        super().__init__(_write(config))


class AxiMaster(wiring.Signature):
    """Both directions of the memory port; members are named as AXI4 names its signals."""

    def __init__(self, config: Config, id_bits: int = ID_BITS):
        super().__init__({**_read(config, id_bits), **_write(config, id_bits)})


def join_axi(m: Module, part, port) -> None:
    """Drive the channels of ``part`` (an arbiter's ``axi``) through ``port``, which has an ``AxiMaster``'s members."""
    for name, member in part.signature.members.items():
        inner, outer = getattr(part, name), getattr(port, name)
        m.d.comb += outer.eq(inner) if member.flow == Out else inner.eq(outer)
