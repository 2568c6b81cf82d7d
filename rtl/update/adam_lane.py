"""Adam lane: a weight every few cycles through Adam, with one multiplier and one shifter for all terms."""

from functools import reduce
from operator import or_

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.numerics import UPDATE_GUARD_BITS
from ..lib.block_memory import BlockMemory
from ..lib.delay import delayed
from ..lib.divide import Divide
from ..lib.product import FACTOR_WIDTH, Product
from ..lib.requantise import Requantise
from ..lib.square_root import SquareRoot
from .adam_factors import AdamScaleLayout, Term
from .rounder import Rounder
from .sgd_lane import ALIGN_LEFT, ALIGN_RIGHT, ALIGN_WIDTH, LOW_BITS, SHIFTS, weight_halves, weight_max

__all__ = ["FOLD", "MAGNITUDE_WIDTH", "AdamLane", "FactorLayout", "TagLayout"]

FOLD = len(Term)
"""Cycles for which a weight has each part of the lane."""

_FIRST_WIDTH, _SECOND_WIDTH = 32, 44
"""Width of a first moment, signed, and of a second, unsigned."""
_ROOT_WIDTH = _SECOND_WIDTH // 2
_RATIO_WIDTH = 23
"""Width of a first moment over a root; there it saturates."""
_SUM_WIDTH = ALIGN_WIDTH + 1

MAGNITUDE_WIDTH = _SUM_WIDTH - UPDATE_GUARD_BITS
"""Width of a new weight or moment before it saturates."""


FactorLayout = data.StructLayout({"i": signed(_SECOND_WIDTH + 1), "factor": FACTOR_WIDTH, "shift": SHIFTS})
"""A term that is multiplied and shifted: a number, its factor, and the shift of the product when that is there."""


def TagLayout(config: Config) -> data.StructLayout:
    """A weight's ``place`` in its group, and flags: the last of the group (``end``), of a chunk, of all."""
    return data.StructLayout({"end": 1, "last": 1, "final": 1, "place": range(config.update_lanes)})


def _from(cycle: int, slot: int) -> int:
    """First cycle from ``cycle`` on, counted from a weight's first one, that is ``slot`` in its fold."""
    return cycle + (slot - cycle) % FOLD


class AdamLane(wiring.Component):
    """Computes golden/adam.py for a weight every ``FOLD`` cycles.

    In each cycle of a fold one :class:`.adam_factors.Term` enters multiplier and shifter: of the weight that is being
    taken (until SQUARE) or of an earlier one. Weights and first moments wait in a memory. Nothing comes out that was
    taken before a reset.

    Parameters
    ----------
    config : Config
        decides the operands' width
    borrows : bool
        multiplier and shifter are a :class:`.folded_sgd_lane.FoldedSgdLane`'s

    Members
    -------
    term : Out(Term)
        the term of this cycle
    scale : In(AdamScaleLayout)
        its factor and shift, see :class:`.adam_factors.AdamScale`
    valid, ready : In, Out
        a weight is there, until ``ready``, which comes in the last cycle of its fold
    tag, g, hi, lo, m, s : In
        the weight: place, gradient, halves, moments; they stand while ``valid``
    m_valid : Out(1)
        a new first moment has its ``magnitude`` now
    s_valid, s_tag, o_s : Out
        a new second moment
    w_valid, w_tag, o_hi, o_lo, o_m : Out
        a new weight with its first moment
    magnitude, saturated : Out
        the present result before it saturates; it was cut
    asks, aligned : Out(FactorLayout), In(signed(ALIGN_WIDTH))
        terms for a multiplier and a shifter outside, and what these make of them; only with ``borrows``

    Timing
    ------
    A new weight comes ``LATENCY`` cycles after the first cycle of its fold.
    """

    _SUM = Product.LATENCY + Requantise.LATENCY + 1
    """Cycles from the second of two terms to their sum."""
    _NEW = _SUM + Rounder.LATENCY
    # Cycles since the weight's first one.
    _FIRST = Term.G + _NEW
    _SECOND = Term.SQUARE + _NEW
    _ROOT = _SECOND + _ROOT_WIDTH
    _DIVISION = _from(_ROOT + 2, (Term.FIRST + _SUM - 1) % FOLD)
    _RATIO = _DIVISION + _RATIO_WIDTH
    _STEP = _from(_RATIO, Term.STEP)
    LATENCY = _STEP + _NEW

    def __init__(self, config: Config, borrows: bool = False):
        self._operand_width, self._borrows = config.operand_width, borrows
        operand, low, first = signed(config.operand_width), signed(LOW_BITS), signed(_FIRST_WIDTH)
        super().__init__({
            "term": Out(Term), "scale": In(AdamScaleLayout),
            "valid": In(1), "ready": Out(1), "tag": In(TagLayout(config)),
            "g": In(operand), "hi": In(operand), "lo": In(low), "m": In(first), "s": In(_SECOND_WIDTH),
            "m_valid": Out(1), "s_valid": Out(1), "s_tag": Out(TagLayout(config)), "o_s": Out(_SECOND_WIDTH),
            "w_valid": Out(1), "w_tag": Out(TagLayout(config)),
            "o_hi": Out(operand), "o_lo": Out(low), "o_m": Out(first),
            "magnitude": Out(MAGNITUDE_WIDTH), "saturated": Out(1),
            **({"asks": Out(FactorLayout), "aligned": In(signed(ALIGN_WIDTH))} if borrows else {}),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        self._slots = slots = Signal(FOLD, init=1)  # a bit for each, since many signals wait for them
        begun, ends = Signal(), Signal()  # the fold has a weight; it ends now
        m.d.sync += [slots.eq(slots.rotate_left(1)), ends.eq(begun & self._at(FOLD - 2)), self.term.eq(self.term + 1)]
        with m.If(self._at(0)):
            m.d.sync += begun.eq(self.valid)
        m.d.comb += self.ready.eq(ends)
        self._validity(m)

        aligned, new = Signal(signed(ALIGN_WIDTH)), Signal(signed(_SECOND_WIDTH + 1))
        ratio = self._ratio(m, aligned, new)
        self._align(m, aligned, self._old(m, new), ratio)
        self._round(m, aligned, new)
        return m

    def _at(self, cycle):
        """High in the given cycle of some weight."""
        return self._slots[cycle % FOLD]

    def _validity(self, m):
        """Tell which results there are, and of which weights."""
        assert self._FIRST // FOLD == self._SECOND // FOLD  # both moments of a weight come in the same fold
        weight, end = Cat(self.valid & self.ready, self.tag), self._at(FOLD - 1)
        there, tag = [], []
        for cycle in (self._SECOND, self.LATENCY):
            of_then = delayed(m, weight, cycle // FOLD, end)
            there.append(of_then[0])
            tag.append(of_then[1:])
        m.d.comb += [
            self.m_valid.eq(there[0] & self._at(self._FIRST)),
            self.s_valid.eq(there[0] & self._at(self._SECOND)), self.s_tag.eq(tag[0]),
            self.w_valid.eq(there[1] & self._at(self.LATENCY)), self.w_tag.eq(tag[1]),
        ]  # fmt: skip

    def _align(self, m, aligned, old, ratio):
        """Multiply each term by its factor and shift it."""
        square = Signal(2 * self._operand_width - 1, reset_less=True)
        m.d.sync += square.eq(self.g * self.g)
        values = {
            Term.M: self.m, Term.G: self.g, Term.S: self.s, Term.SQUARE: square, Term.FIRST: old, Term.W: old,
            Term.STEP: ratio,
        }  # fmt: skip
        chosen = reduce(or_, (Mux(self._at(term), value, 0) for term, value in values.items()))
        if self._borrows:
            m.d.comb += [
                self.asks.i.eq(chosen), self.asks.factor.eq(self.scale.factor), self.asks.shift.eq(self.scale.shift),
                aligned.eq(self.aligned),
            ]  # fmt: skip
            return
        m.submodules.product = product = Product(FactorLayout["i"].shape)
        m.submodules.align = align = Requantise(len(product.o), ALIGN_WIDTH, -ALIGN_LEFT, ALIGN_RIGHT)
        m.d.comb += [
            product.i.eq(chosen), product.factor.eq(self.scale.factor),
            align.i.eq(product.o), align.shift.eq(self.scale.shift), aligned.eq(align.o),
        ]  # fmt: skip

    def _round(self, m, aligned, new):
        """Add two terms each, cut the sums to their limits, and report them."""
        previous, total = Signal.like(aligned, reset_less=True), Signal(signed(_SUM_WIDTH), reset_less=True)
        m.d.sync += [previous.eq(aligned), total.eq(previous + aligned)]
        m.submodules.rounded = rounded = Rounder(
            _SUM_WIDTH, (1 << (_FIRST_WIDTH - 1)) - 1, (1 << _SECOND_WIDTH) - 1, weight_max(self._operand_width)
        )  # fmt: skip
        weight = self._STEP + self._SUM
        m.d.comb += [
            rounded.i.eq(total), new.eq(rounded.o),
            rounded.limit.eq(Mux(self._at(Term.G + self._SUM), 0, Mux(self._at(Term.SQUARE + self._SUM), 1, 2))),
            rounded.negate.eq(self._at(weight) & self._falls(m, new, weight)),
            self.o_s.eq(new), *weight_halves(new, self.o_hi, self.o_lo),
            self.magnitude.eq(rounded.magnitude), self.saturated.eq(rounded.saturated),
        ]  # fmt: skip

    def _falls(self, m, new, cycle):
        """In that cycle of a weight: its new first moment isn't negative.

        If so, the step is added to the old weight's negative, and the sum is the new weight's negative.
        """
        return delayed(m, ~new[-1], -(-(cycle - self._FIRST) // FOLD), self._at(self._FIRST))

    def _ratio(self, m, aligned, new):
        """The first moment's magnitude over the root of the second."""
        m.submodules.root = root = SquareRoot(_SECOND_WIDTH, FOLD)
        m.submodules.divide = divide = Divide(ALIGN_WIDTH - 1, _ROOT_WIDTH, _RATIO_WIDTH, FOLD)
        epsilon = Signal.like(self.scale.epsilon, reset_less=True)  # stands still during a command
        floored = Signal(_ROOT_WIDTH, reset_less=True)
        assert self._SECOND + root.latency == self._ROOT
        assert self._DIVISION + divide.latency == self._RATIO
        m.d.sync += [epsilon.eq(self.scale.epsilon), floored.eq(Mux(root.o > epsilon, root.o, epsilon))]
        m.d.comb += [
            root.start.eq(self._at(self._SECOND)), root.i.eq(new),
            divide.start.eq(self._at(self._DIVISION)), divide.i.eq(aligned), divide.by.eq(floored),
        ]  # fmt: skip
        return divide.o

    def _old(self, m, new):
        """Old weights and new first moments, from a memory; as terms with the sign that is wanted."""
        generation = Signal(range(1 << (self.LATENCY // FOLD).bit_length()))
        m.submodules.memory = memory = BlockMemory(_FIRST_WIDTH, 2 << len(generation), block=True)
        word = Signal(signed(_FIRST_WIDTH), reset_less=True)  # two cycles after its address, as blocks are slow
        m.d.sync += word.eq(memory.r_data)
        first, weight = self._DIVISION - self._SUM + 1, self._STEP - 1  # the cycles in which they are multiplied
        written = self._at(self._FIRST)
        with m.If(self._at(FOLD - 1)):
            m.d.sync += generation.eq(generation + 1)

        def place(of_first, cycle):
            return Cat((generation - cycle // FOLD)[: len(generation)], of_first)

        m.d.comb += [
            memory.w_en.eq(written | self._at(0)), memory.w_addr.eq(Mux(written, place(1, self._FIRST), place(0, 0))),
            memory.w_data.eq(Mux(written, new[:_FIRST_WIDTH], (self.hi << LOW_BITS) + self.lo)),
            memory.r_en.eq(1), memory.r_addr.eq(place(1, self.LATENCY - 2)), self.o_m.eq(word),
        ]  # fmt: skip
        for of_first, cycle in ((1, first), (0, weight)):
            with m.If(self._at(cycle - 3)):
                m.d.comb += memory.r_addr.eq(place(of_first, cycle - 3))
        of_weight = delayed(m, self._at(weight - 2), 1)
        negate = Mux(of_weight, self._falls(m, new, weight - 1), word[-1])
        old = Signal(signed(_FIRST_WIDTH + 1), reset_less=True)
        m.d.sync += old.eq((word ^ negate.replicate(len(old)).as_signed()) + negate)
        return old
