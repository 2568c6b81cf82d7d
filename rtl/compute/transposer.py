"""Turns vectors of reduction elements, one for each outer position, into vectors of outer positions."""

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.block_memory import BlockMemory
from ..lib.delay import delayed, registered
from ..lib.interfaces import OperandVector
from ..memory.scratchpad import rotated

__all__ = ["SliceLayout", "Transposer"]


def SliceLayout(config: Config) -> data.StructLayout:
    """A slice: ``count`` outer positions by ``lanes`` reduction elements, and its last vector's flags."""
    lanes = config.vector_lanes
    return data.StructLayout({"lanes": range(lanes + 1), "count": range(lanes + 1), "end_sweep": 1, "end_walk": 1})


class Transposer(wiring.Component):
    """Holds slices of an operand: one is written by outer position while another is read by reduction element.

    Lane k of the vector of position i lies in bank k + i, at address i. So all lanes of a vector are written at once,
    and so are all positions' elements k read. There are two slices, or four where writing one takes as long as reading
    it, which leaves no time to hand it over.

    Parameters
    ----------
    n
        most outer positions of a slice, at most ``vector_lanes``

    Members
    -------
    i : In(stream.Signature(OperandVector(config)))
        the vectors; those up to one with ``end_pass`` are a slice
    there : Out(1)
        a slice is complete
    slice : Out(SliceLayout(config))
        the slice
    step : In(1)
        read element ``k`` of it
    k : In(range(config.vector_lanes))
        a reduction element
    done : In(1)
        comes with the last step of a slice
    o : Out(data.ArrayLayout(signed(config.operand_width), n))
        the positions' operands; positions that the slice lacks have undefined ones

    Timing
    ------
    ``o`` follows ``LATENCY`` cycles after ``step``. A vector and a step a cycle.
    """

    LATENCY = 2

    def __init__(self, config: Config, n: int):
        self._config, self._n = config, n
        self._slices = 4 if n == config.vector_lanes else 2
        operands = data.ArrayLayout(signed(config.operand_width), n)
        super().__init__({
            "i": In(stream.Signature(OperandVector(config))), "there": Out(1), "slice": Out(SliceLayout(config)),
            "step": In(1), "k": In(range(config.vector_lanes)), "done": In(1), "o": Out(operands),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        lanes = self._config.vector_lanes
        bits = (lanes - 1).bit_length()
        vector = self.i.payload
        place = Signal(range(lanes))
        writing, reading = Signal(range(self._slices)), Signal(range(self._slices))
        full, complete = (Signal(range(self._slices + 1), name=name) for name in ("full", "complete"))
        taken = self.i.valid & self.i.ready
        ends = Signal()
        m.d.comb += [
            ends.eq(taken & vector.end_pass), self.i.ready.eq(full != self._slices), self.there.eq(complete != 0),
        ]  # fmt: skip
        m.d.sync += [
            full.eq(full + ends - self.done), complete.eq(complete + delayed(m, ends, 1) - self.done),
            writing.eq(writing + ends), reading.eq(reading + self.done),
        ]  # fmt: skip
        with m.If(taken):
            m.d.sync += place.eq(Mux(vector.end_pass, 0, place + 1))
        m.d.comb += self.slice.eq(self._describe(m, ends, writing, reading, place))

        words = data.ArrayLayout(signed(self._config.operand_width), lanes)
        s1_vector, s1_words = Signal(words), Signal(words)
        registered(m, s1_vector, rotated(m, vector.data, place, left=True))
        for bank in range(lanes):
            m.submodules[f"bank{bank}"] = memory = BlockMemory(signed(self._config.operand_width), self._slices * lanes)
            position = Signal(bits, name=f"position{bank}")
            m.d.comb += [
                memory.w_en.eq(delayed(m, taken, 1)), memory.w_addr.eq(delayed(m, Cat(place, writing), 1)),
                memory.w_data.eq(s1_vector[bank]),
                position.eq(bank - self.k), memory.r_en.eq(self.step), memory.r_addr.eq(Cat(position, reading)),
                s1_words[bank].eq(memory.r_data),
            ]  # fmt: skip
        turned = rotated(m, s1_words, delayed(m, self.k, 1), left=False)
        registered(m, self.o, Cat(turned[place] for place in range(self._n)))
        return m

    def _describe(self, m, ends, writing, reading, place):
        """Keep what is known of the slices; returns that of the slice that is read."""
        vector, found = self.i.payload, 0
        for number in range(self._slices):
            kept = Signal(SliceLayout(self._config), name=f"kept{number}", reset_less=True)
            with m.If(ends & (writing == number)):
                m.d.sync += [
                    kept.lanes.eq(vector.lanes), kept.count.eq(place + 1),
                    kept.end_sweep.eq(vector.end_sweep), kept.end_walk.eq(vector.end_walk),
                ]  # fmt: skip
            found = Mux(reading == number, kept.as_value(), found)
        return found
