"""A block with all its inputs free, and what is to be proved, assumed and reached of it."""

from itertools import count

from amaranth import Const, Module, Shape, Signal, Value
from amaranth.back import rtlil
from amaranth.hdl import Assert, Assume, Cover, Fragment
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

__all__ = ["Harness", "interfaces"]


def interfaces(component, kind):
    """Interfaces of a component whose signature is a ``kind``: (path, whether the component is their source, port)."""

    def walk(members, owner, path, outwards):
        for name, member in members.items():
            if member.is_port:
                continue
            out = outwards == (member.flow == Out)
            signature = member.signature if member.flow == Out else member.signature.flip()  # as it was written

            def elements(port, dimensions, path, signature=signature, out=out):
                if dimensions:
                    for i in range(dimensions[0]):
                        yield from elements(port[i], dimensions[1:], f"{path}[{i}]")
                elif isinstance(signature, kind):
                    yield path, out, port
                else:
                    yield from walk(signature.members, port, f"{path}.", out)

            yield from elements(getattr(owner, name), member.dimensions, path + name)

    yield from walk(component.signature.members, component, "", True)


class Harness:
    """Checks around ``dut``, whose inputs and reset are free in every cycle.

    ``m`` is the module that the checks are in; its registers are reset with the block's, so that everything holds for
    operation between any two resets. Names of checks are unique.
    """

    def __init__(self, dut: wiring.Component):
        self.dut = dut
        self.m = Module()
        self._fragment = Fragment.get(dut, None)
        self.m.submodules.dut = self._fragment
        inputs = (Value.cast(value) for _, member, value in dut.signature.flatten(dut) if member.flow == wiring.In)
        self._ports = [
            value for value in inputs if isinstance(value, Signal)
        ]  # the ready of an always_ready stream isn't
        self.names = set()
        self.independent = {}
        self.fresh = Signal(init=1)
        """High in the first cycle, and in that after each one with reset."""
        self.m.d.sync += self.fresh.eq(0)

    def _inside(self, path: str):
        """The fragment of a submodule; KeyError if there is none."""
        fragment = self._fragment
        for part in filter(None, path.split(".")):
            names = {name: sub for sub, name, _ in fragment.subfragments}
            if part not in names:
                raise KeyError(f"no submodule {part!r} on the way to {path!r}; there are: {', '.join(map(str, names))}")
            fragment = names[part]
        return fragment

    def block(self, path: str):
        """The component that is the submodule at ``path``, the block itself at none."""
        return self._inside(path).origins[0]

    def signals(self, path: str) -> list[Signal]:
        """Signals by the path of the submodule that drives them and their common name, in the order they were made."""
        where, _, name = path.rpartition(".")
        statements = self._inside(where).statements.values()
        found = {id(s): s for block in statements for s in block._lhs_signals() if s.name == name}
        return sorted(found.values(), key=lambda signal: signal.duid)

    def signal(self, path: str) -> Signal:
        """The one signal at ``path``; KeyError unless there is just one."""
        found = self.signals(path)
        if len(found) != 1:
            raise KeyError(f"{len(found)} signals are {path!r}")
        return found[0]

    def state(self, path: str, name: str) -> Value:
        """1 while the state machine in the submodule at ``path`` is in state ``name``; KeyError if it has none."""
        signal = self.signal(f"{path}.fsm_state" if path else "fsm_state")
        value = next(value for value in count() if signal.decoder(value) == f"{name}/{value}")
        return signal == value

    def word(self, path: str, address) -> Signal:
        """The word of the memory at ``path`` at ``address``, through a read port of the harness's own."""
        memory = self._inside(path)
        shape, depth = memory._data.shape, memory._data.depth
        place, found = Signal(range(depth), name=f"place{len(self.names)}"), Signal(Shape.cast(shape).width)
        self.m.d.comb += place.eq(address)
        memory.read_port(domain="comb", addr=place, data=found, en=Const(1), transparent_for=())
        return found

    def held(self, path: str, meant) -> Value:
        """The number of entries of the SyncFIFO at ``path`` whose value is ``meant``."""
        fifo, consume = self.block(path), self.signal(f"{path}.consume")
        places = [(place, self.word(f"{path}.storage", place)) for place in range(fifo.depth)]
        return sum(((place - consume)[: len(consume)] < fifo.level) & meant(word) for place, word in places)

    def free(self, shape=1, name: str | None = None) -> Signal:
        """A value that anything may be in any cycle."""
        signal = Signal(shape, name=name or f"free{len(self._ports)}")
        self._ports.append(signal)
        return signal

    def constant(self, shape=1) -> Signal:
        """A value that may be anything, but is the same in all cycles."""
        signal = self.free(shape)
        held, begun = Signal.like(signal, reset_less=True), Signal(reset_less=True)
        self.m.d.sync += [held.eq(signal), begun.eq(1)]
        self.assume(f"{signal.name} is constant", ~begun | (held == signal))
        return signal

    def before(self, value, init: int = 0) -> Signal:
        """``value`` of the cycle before, ``init`` after reset."""
        value = Value.cast(value)
        signal = Signal(value.shape(), init=init, name=f"before{len(self.names)}")
        self.m.d.sync += signal.eq(value)
        return signal

    def count(self, up, down, limit: int) -> Signal:
        """Events ``up`` less events ``down`` of all cycles before this one, for as long as they stay in 0..limit."""
        signal = Signal(range(limit + 1), name=f"count{len(self.names)}")
        self.m.d.sync += signal.eq(signal + up - down)
        return signal

    def _check(self, kind, name, condition):
        if name in self.names:
            raise ValueError(f"two checks are called {name!r}")
        self.names.add(name)
        self.m.d.comb += kind(Value.cast(condition).any(), name)

    def prove(self, name: str, condition) -> None:
        """``condition`` holds in every cycle."""
        self._check(Assert, name, condition)

    def assume(self, name: str, condition) -> None:
        """Assume of the surroundings that ``condition`` holds in every cycle."""
        self._check(Assume, name, condition)

    def cover(self, name: str, condition) -> None:
        """``condition`` can become true."""
        self._check(Cover, name, condition)

    def ignores(self, name: str, output: Signal, port: Signal) -> None:
        """No path of gates leads from the input ``port`` to ``output``."""
        if name in self.independent:
            raise ValueError(f"two checks are called {name!r}")
        copy = Signal(name=f"independent_{len(self.independent)}")
        self.m.d.comb += copy.eq(output)
        self.independent[name] = (copy, port)

    def rtlil(self) -> str:
        """The block with its checks as RTLIL, module ``top``."""
        outputs = [copy for copy, _ in self.independent.values()]
        return rtlil.convert(self.m, ports=[*self._ports, *outputs], emit_src=False)
