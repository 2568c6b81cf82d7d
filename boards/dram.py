"""The board's memory as the accelerator sees it: LiteDRAM's core behind AXI4 and AXI4-Lite."""

from amaranth import Cat, Const, Instance, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, connect, flipped

from ..rtl.control.csr import AxiLite
from .axi_widen import AxiWiden
from .litedram_core import MODULE, PORT

__all__ = ["Dram"]

_WIDER = {"awsize": 4, "arsize": 4}
_UNUSED = {"adr": 30, "dat_w": 32, "sel": 4, "cyc": 1, "stb": 1, "we": 1, "cti": 3, "bte": 2}
_CSR_ADDR_WIDTH = 32


class Dram(wiring.Component):
    """LiteDRAM's core: ``axi``, its memory, for a master whose data are at most ``width`` bits wide, the core's own.

    ``size``: the memory's, in bytes; addresses beyond it come round. ``csr``: the controller's registers. ``others``
    are the instance's remaining connections: clock, pins, status. The core answers reads in order.
    """

    def __init__(self, axi: wiring.Signature, width: int, size: int, others: dict):
        self._axi, self._width, self._others = axi, width, others
        self._address_bits = (size - 1).bit_length()
        super().__init__({"axi": In(axi), "csr": In(AxiLite())})

    def elaborate(self, platform):
        m = Module()
        axi = self.axi
        if len(self.axi.wdata) < self._width:
            m.submodules.widen = widen = AxiWiden(self._axi, self._width)
            connect(m, flipped(self.axi), widen.i)
            axi = widen.o
        connections = {f"i_wb_ctrl_{name}": Const(0, width) for name, width in _UNUSED.items()}
        for name, member in self._axi.members.items():
            if name[2:] in ("cache", "prot"):
                continue  # it is memory
            signal = getattr(axi, name)
            signal = Cat(signal, Const(0, _WIDER[name] - len(signal))) if name in _WIDER else signal
            signal = signal[: self._address_bits] if name.endswith("addr") else signal
            connections[f"{'o' if member.flow == In else 'i'}_user_port_{PORT}_{name}"] = signal
        for name, member in AxiLite().members.items():
            signal = getattr(self.csr, name)
            signal = Cat(signal, Const(0, _CSR_ADDR_WIDTH - len(signal))) if name.endswith("addr") else signal
            connections[f"{'o' if member.flow == In else 'i'}_csr_{name}"] = signal
        for name in ("awprot", "arprot"):
            connections[f"i_csr_{name}"] = Const(0, 3)
        m.submodules.core = Instance(MODULE, **connections, **self._others)
        return m
