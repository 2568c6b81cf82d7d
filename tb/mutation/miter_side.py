"""One side of a comparison: a module without memories, submodules and clock gates, which become ports."""

from adagp.rtl.lib.clock_gate import CELL
from pyosys import libyosys as ys

__all__ = ["GATE_PORT", "Side", "identifier", "plain"]

GATE_PORT = ".open"
"""End of the names of outputs that are 1 while a clock gate is open."""


def identifier(name: str) -> ys.IdString:
    return ys.IdString(f"\\{name}")


def plain(name: str) -> str:
    """A name that needs no escapes in selections."""
    return "".join(letter if letter.isalnum() else "_" for letter in name)


class Side:
    """A module without memories, submodules and clock gates: these become ports."""

    def __init__(self, module: ys.Module, gated: bool):
        self.module = module
        self.names = 0
        cells = list(self.module.cells_.values())
        gates = [cell for cell in cells if cell.type.str() == f"\\{CELL}"]
        self._hold([cell for cell in cells if cell.is_builtin_ff() and gated], gates)
        for cell in cells:
            if cell.is_mem_cell():
                self._cut_memory(cell)
            elif cell.type.str() == "$anyseq":
                self._input(plain(cell.name.str()), cell.getPort(identifier("Y")))
                self.module.remove(cell)
            elif cell not in gates and cell.type.str().startswith("\\"):
                self._cut_module(cell)
        self.module.fixup_ports()

    def _name(self):
        self.names += 1
        return identifier(f"side_{self.names}")

    def _input(self, label, signal):
        if signal.size():
            wire = self.module.addWire(identifier(label), signal.size())
            wire.port_input = True
            self.module.connect(signal, ys.SigSpec(wire))

    def _output(self, label, signal):
        if not signal.size():
            return
        wire = self.module.addWire(identifier(label), signal.size())
        wire.port_output = True
        self.module.connect(ys.SigSpec(wire), signal)

    def _hold(self, registers, gates):
        """Make registers with a gated clock keep their value while the gate is closed; make gates outputs."""
        opens = {}
        for gate in gates:
            open_ = gate.getPort(identifier("open"))
            opens[gate.getPort(identifier("o")).as_string()] = open_
            self._output(f"{plain(gate.name.str())}{GATE_PORT}", open_)
        for cell in registers:
            open_ = opens.get(cell.getPort(identifier("CLK")).as_string()) if cell.hasPort(identifier("CLK")) else None
            if open_ is not None:
                held, given = cell.getPort(identifier("Q")), cell.getPort(identifier("D"))
                cell.setPort(identifier("D"), self.module.Mux(self._name(), held, given, open_))
        for gate in gates:
            self.module.remove(gate)

    def _cut_module(self, cell):
        label = plain(cell.name.str())
        for port, signal in list(cell.connections_.items()):
            if cell.output(port):
                self._input(f"{label}.{port.str()[1:]}", signal)
            else:
                self._output(f"{label}.{port.str()[1:]}", signal)
        self.module.remove(cell)

    def _cut_memory(self, memory):
        """A memory's read data becomes an input; its addresses and write data, where enabled, become outputs."""
        ports = {port.str()[1:]: signal for port, signal in memory.connections_.items() if signal.size()}
        label = plain(memory.name.str())
        n_bits = memory.parameters[identifier("ABITS")].as_int()
        width = memory.parameters[identifier("WIDTH")].as_int()
        for port, signal in ports.items():
            if port == "RD_DATA":
                self._input(f"{label}.{port}", signal)
            elif port == "WR_DATA":
                self._output(f"{label}.{port}", self.module.And(self._name(), signal, ports["WR_EN"]))
            elif port in ("RD_ADDR", "WR_ADDR"):
                size = 1 if port == "RD_ADDR" else width
                enables = ports[f"{port[:2]}_EN"]
                for number in range(signal.size() // n_bits):
                    enable = self.module.ReduceOr(self._name(), enables.extract(number * size, size))
                    address = signal.extract(number * n_bits, n_bits)
                    zero = ys.SigSpec(0, n_bits)
                    self._output(f"{label}.{port}{number}", self.module.Mux(self._name(), zero, address, enable))
            elif not port.endswith("CLK"):
                self._output(f"{label}.{port}", signal)
        self.module.remove(memory)
