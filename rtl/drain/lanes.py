"""Each lane's share of a vector in the drain engine: whether it takes part, its shift, its places in C."""

from amaranth import Array, Cat, Mux, Signal
from amaranth.lib import data

from ...spec.config import Config
from ...spec.numerics import SHIFT_MAX, SHIFT_MIN
from ..lib.delay import delayed, registered
from .folding import of_group

__all__ = ["lane_addresses", "lane_masks", "lane_offsets", "lane_shifts", "result_addresses"]


def _bank_bits(config):
    return (config.banks - 1).bit_length()


def lane_masks(m, config: Config, d):
    """Lanes of a full vector and of a short one, one cycle after ``d``."""
    full = Signal(config.result_lanes)
    tail = Signal.like(full)
    n_full = Mux(d.vector, config.rows, config.cols)
    for lane in range(len(full)):
        m.d.sync += [full[lane].eq(lane < n_full), tail[lane].eq(lane < d.lanes_last)]
    return full, tail


def lane_shifts(m, config: Config, d, en, before, tail, vector, epilogue):
    """Drive every lane's shift, one cycle after ``before``: 0 for index vectors, ``shift_ones`` for bias gradients.

    With ``scaled`` they are those that a ``vector`` brings. True if such a vector isn't among the results.
    """
    group = getattr(epilogue, "group", None)
    ones = []
    for lane in range(len(tail)):
        corner = tail[lane] & ~tail[lane + 1] if lane + 1 < len(tail) else tail[lane]
        ones.append(d.ones & Mux(d.swap, before.last_out & corner, before.last_in))
    if group is not None and not config.normalises:  # a bit for each lane, and a shift for each of a group
        plain, *s1_ones = (delayed(m, bit, 1, en) for bit in (before.plain, *ones))
        for shift, here in zip(epilogue.shift, of_group(config, s1_ones, group), strict=True):
            m.d.comb += shift.eq(Mux(plain, 0, Mux(here, d.shift_ones, d.shift)))
        return 0
    shifts = epilogue.shift
    if config.normalises:
        shifts = Signal(data.ArrayLayout(range(SHIFT_MIN, SHIFT_MAX + 1), len(tail)))
    for lane, here in enumerate(ones):
        with m.If(en):
            m.d.sync += shifts[lane].eq(Mux(before.plain, 0, Mux(here, d.shift_ones, d.shift)))
    if not config.normalises:
        return 0
    scaled = Signal()  # a cycle after the descriptor, which is soon enough
    m.d.sync += scaled.eq(d.scaled)
    brought = [Mux(scaled, vector.shift[lane], shifts[lane]) for lane in range(config.rows)]
    of_lanes = brought + [shifts[lane] for lane in range(config.rows, len(tail))]
    for shift, value in zip(epilogue.shift, of_group(config, of_lanes, group), strict=True):
        m.d.comb += shift.eq(value)
    return scaled & vector.plain


def lane_offsets(m, config: Config, d):
    """Words from lane 0's bank row to each lane's, one cycle after ``d``: multiples of lane_step / banks."""
    step = Signal(range(config.c_depth))
    m.d.comb += step.eq(d.lane_step >> _bank_bits(config))  # the remainder is always 1
    multiples = [0, step]
    registers = []
    for lane in range(config.result_lanes):
        if lane > 1:  # by doubling, so that the adders form a tree
            multiples.append(Signal.like(step))
            m.d.comb += multiples[lane].eq((multiples[lane // 2] << 1) + (step if lane % 2 else 0))
        registers.append(Signal.like(step))
        m.d.sync += registers[lane].eq(multiples[lane])
    return registers


def lane_addresses(m, config: Config, d, port, address, offsets, en=1):
    """Drive a port's bank rotation and addresses, a cycle with ``en`` later: lane l at ``address + l * lane_step``."""
    bank, word = address[: _bank_bits(config)], address[_bank_bits(config) :]
    for lane, offset in enumerate(offsets):
        carry = (bank + lane) >> _bank_bits(config)
        place = Signal.like(port.addr[lane], name=f"place{lane}", reset_less=True)
        with m.If(en):
            m.d.sync += place.eq(Cat((word + offset + carry)[: len(word)], d.half))
        m.d.comb += port.addr[lane].eq(place)
    registered(m, port.rot, bank, en)


def result_addresses(m, config: Config, d, port, address, group, offsets, latency):
    """Drive a port as :func:`lane_addresses`, ``latency`` cycles after a vector, or a ``group``, is at ``address``."""
    address = delayed(m, address, latency - 1, reset=False)
    if group is None:
        lane_addresses(m, config, d, port, address, offsets)
        return
    group = delayed(m, group, latency - 2, reset=False)
    bank, word = address[: _bank_bits(config)], address[_bank_bits(config) :]
    width, lanes = config.epilogue_width, range(config.result_lanes)
    for first in range(width):
        offset, lane = Signal.like(offsets[0], name=f"offset{first}"), Signal(lanes, name=f"lane{first}")
        m.d.sync += [
            offset.eq(Array(offsets[first::width])[group]), lane.eq(Array(lanes[first::width])[group]),
        ]  # fmt: skip
        carry = (bank + lane) >> _bank_bits(config)
        place = Signal.like(port.addr[first], name=f"place{first}", reset_less=True)
        m.d.sync += place.eq(Cat((word + offset + carry)[: len(word)], d.half))
        m.d.comb += [port.addr[each].eq(place) for each in lanes[first::width]]
    registered(m, port.rot, bank)
