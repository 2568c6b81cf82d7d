"""The tile program: how one layer command becomes descriptors for the engines.

Written once, in the subset of Python that :mod:`adagp.spec.microcode.compiler` compiles for the sequencer
(integer variables, ``+ - * //``, comparisons, ``if``, ``while``, ``min``, ``max``, ``align``, steps written as
functions, and the machine's ``fill``, ``compute``, ``drain``, ``store``, ``fail``); run as Python it serves as the
sequencer's reference and as the host's means to judge a mapping. The steps are in :mod:`adagp.spec.microcode.setup`,
:mod:`adagp.spec.microcode.shape` and :mod:`adagp.spec.microcode.issue`.

Names: ``in_*``/``out_*`` are the tensor that is read through the A scratchpad and the one written;
``ic``/``oc`` their channels; a trailing ``0`` marks a tile's first index, ``_t`` its extent.
"""

from types import SimpleNamespace

from .issue import compute, fill_a, fill_b, fill_c
from .norm import tables_tile
from .setup import check, exponents, orient, residue, sizes
from .shape import extent, first_tile, layout_a, layout_c, layout_tail, next_tile
from .store import store

__all__ = ["tile_program"]


def tile_program(c, k, m):
    """Issue the descriptors of command ``c`` to machine ``m``.

    ``c`` has the command's fields plus ``a_base`` (operand A's address, ring resolved), ``exp_a``,
    ``exp_b``, ``exp_c``, ``exp_out``, ``dry`` (1 in calibration's first pass). ``k`` has the
    configuration's constants, opcodes and error codes. ``m.fail(code)`` does not return.
    """
    t = SimpleNamespace()
    check(c, k, m, t)
    orient(c, k, m, t)
    exponents(c, k, t)
    sizes(c, k, m, t)
    while t.final != 1:
        if t.split:
            residue(c, t)
        first_tile(t)
        while t.final == 0:
            extent(c, t)
            if k.normalises and t.tables:
                tables_tile(c, k, m, t)
            else:
                values_tile(c, k, m, t)


def values_tile(c, k, m, t):
    """A tile of a command that makes values, from the filling of the scratchpads to the storing of results."""
    if t.taps:
        layout_a(c, k, m, t)
        fill_a(c, k, m, t)
        fill_b(c, k, m, t)
    if t.first:
        layout_c(c, k, m, t)
    layout_tail(k, t)
    if t.last:
        fill_c(c, k, m, t)
    compute(c, k, m, t)
    next_tile(c, t)
    if t.last:
        store(c, m, t)
