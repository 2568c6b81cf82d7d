"""Tiles, one after the other: the range that each covers, and its layout in the scratchpads.

Steps of the tile program, compiled like it; :mod:`adagp.spec.microcode.program` says in which language and with which
names. ``t`` holds the values that steps hand to each other, other names are a step's own.

The A scratchpad is laid out so that the ``rows`` operands of one reduction vector always lie in
different banks at consecutive residues (consecutive reduction indices differ by 1 modulo banks):
``[n][y][x][c]`` with a row pitch congruent to S*c when channels are reduced, ``[c][n][y][x]`` with a row
pitch congruent to the row's length when pixels are (BACKWARD_WEIGHT). Zero rows, columns and the zeros between
the gradients of strided pools are really stored, so that reading needs no bounds checks.
"""

__all__ = [
    "LOOP_ENDS", "align", "extent", "first_tile", "layout_a", "layout_c", "layout_sums", "layout_tail", "next_tile",
    "over",
]  # fmt: skip

LOOP_ENDS = {"n": ("c", "n"), "y": ("t", "out_h"), "i": ("t", "ic"), "o": ("t", "oc")}
"""Loops over tiles: images, rows, and channels of the reduction and of the output, each with the end of its range."""


def align(value: int, residue: int, banks: int) -> int:
    """Least number >= value that is congruent to residue modulo banks."""
    return value + ((residue - value) % banks)


def first_tile(t):
    """Tile loops: images, rows, output channels (either order), then the reduction's.

    BACKWARD_WEIGHT: the "output" loops run over filters and input channels.
    """
    t.n0 = 0
    t.y0 = 0
    t.o0 = 0
    t.i0 = 0
    t.a_key_n = -1  # the tiles that the scratchpads hold
    t.a_key_y = -1
    t.a_key_i = -1
    t.b_key_n = -1
    t.b_key_y = -1
    t.b_key_i = -1
    t.b_key_o = -1
    t.final = 0


def extent(c, t):
    """The tile's extent, and whether the reduction begins (``first``) or ends (``last``) with it."""
    t.o_t = min(t.oc_tile, t.oc - t.o0)
    if t.pool:
        t.i0 = t.o0
    t.i_t = min(t.ic_tile, t.ic - t.i0)
    t.first = 1
    if (t.over_pixels and t.n0 + t.y0 > 0) or (t.weight == 0 and t.pool == 0 and t.i0 > 0):
        t.first = 0

    # Rows of the input this tile touches: lo..hi, the first at virtual row ``top`` of the tile.
    if t.over_pixels or t.first:
        t.n_t = min(c.nb, c.n - t.n0)
        t.y_t = min(c.yb, t.out_h - t.y0)
        t.pixels = t.out_w * t.y_t * t.n_t
        t.tall = (t.y_t - 1) * t.step + t.r
        row0 = t.y0 * t.step - t.pad_y
        t.lo = max(0, row0)
        hi = row0 + t.tall
        if t.dilate > 1:
            t.lo = (t.lo + t.dilate - 1) // t.dilate
            hi = (hi + t.dilate - 1) // t.dilate
        t.height = max(0, min(t.in_h, hi) - t.lo)
        t.top = t.dilate * t.lo - row0 if t.height > 0 else 0
        t.holes = t.wide * t.tall - t.columns * t.height  # padding and dilation
    t.last = 1
    if t.over_pixels:
        t.last = 0 if t.n0 + t.n_t < c.n or t.y0 + t.y_t < t.out_h else 1
    elif t.pool == 0 and t.i0 + t.i_t < t.ic:
        t.last = 0


def layout_a(c, k, m, t):
    """The A scratchpad's layout."""
    if t.weight:
        t.pitch_x = 1
        t.pitch_y = align(t.wide, t.out_w, k.banks)
        t.n_k = t.out_w * t.y_t
        t.pitch_n = align(t.pitch_y * t.tall, t.n_k, k.banks)
        t.pitch_c = align(t.pitch_n * t.n_t, 1, k.banks)
        t.n_k = t.n_k * t.n_t
        t.a_used = t.pitch_c * t.i_t
    else:
        t.pitch_x = t.i_t
        t.pitch_y = align(t.wide * t.i_t, t.s * t.i_t, k.banks)
        t.pitch_n = t.pitch_y * t.tall
        t.pitch_c = 1
        t.n_k = t.taps * t.i_t
        t.a_used = t.pitch_n * t.n_t
    if t.a_used > k.a_elements:
        m.fail(k.A_OVERFLOW)
    t.clear_a = t.a_used if t.holes else 0


def layout_c(c, k, m, t):
    """A new output tile: shape of the GEMM, layout of the C scratchpad, place in the output tensor.

    The layout is ``[pixel][channel]`` or ``[filter][element]``; the tile goes to runs of the output tensor, one per
    image, row and column (or per filter and the tap's row and column).
    """
    if k.convolves_channels and t.depthwise and t.over_pixels:
        layout_filters(c, k, m, t)
    elif k.normalises and t.norm and t.over_pixels:
        layout_sums(c, k, t)
    elif t.weight:
        t.ones = 1 if t.bias and t.i0 + t.i_t == t.ic else 0
        t.n_a = t.taps * t.i_t + t.ones
        t.pitch_o = t.n_a if c.swap else align(t.n_a, 1, k.banks)
        t.c_used = t.pitch_o * t.o_t
        t.out_n0 = t.o_t
        t.out_n1 = t.r
        t.out_n2 = t.s
        t.out_s0 = t.pitch_o
        t.out_s1 = t.s * t.i_t
        t.out_s2 = t.i_t
        t.out_length = t.i_t
        t.out_offset = t.filter_bytes * t.o0 + t.out_origin + t.i0 * k.operand_bytes
        if t.i_t == t.ic and t.split == 0:
            t.out_n1 = 1
            t.out_n2 = 1
            t.out_length = t.n_a
    else:
        t.ones = 0
        t.n_a = t.pixels
        t.pitch_o = align(t.o_t, 1, k.banks) if c.swap and t.pool == 0 else t.o_t
        t.c_used = t.pixels * t.pitch_o
        t.out_n0 = t.n_t
        t.out_n1 = t.y_t
        t.out_n2 = t.out_w
        t.out_s1 = t.pitch_o * t.out_w
        t.out_s2 = t.pitch_o
        t.out_s0 = t.out_s1 * t.y_t
        t.out_length = t.o_t
        t.out_offset = t.out_image * t.n0 + t.out_d1 * t.y0 + t.out_origin + t.o0 * k.operand_bytes
        if t.o_t == t.oc and t.pitch_o == t.oc and t.out_pitch == t.oc and t.split == 0:
            t.out_length = t.out_s0
            t.out_n1 = 1
            t.out_n2 = 1
    t.n_stream = t.n_a
    t.n_stat = t.o_t
    if c.swap:
        t.n_stream = t.o_t
        t.n_stat = t.n_a
    t.groups = (t.n_stat + k.cols - 1) // k.cols
    if t.pool == 0 and t.n_stream * t.groups > k.acc_depth:
        m.fail(k.ACC_OVERFLOW)
    t.idx = 0
    if c.opcode == k.MAXPOOL:
        t.idx = t.c_used
        t.c_used = 2 * t.c_used
    if t.c_used > k.c_elements:
        m.fail(k.C_OVERFLOW)


def layout_filters(c, k, m, t):
    """A tile of DEPTHWISE_BACKWARD_WEIGHT: whole filters, of which the pool unit keeps a vector for each element."""
    t.ones = c.bias
    t.n_a = t.taps + t.ones
    if (t.o_t + k.rows - 1) // k.rows * t.n_a > k.kept_words:
        m.fail(k.ACC_OVERFLOW)
    t.pitch_o = align(t.n_a, 1, k.banks)
    t.c_used = t.pitch_o * t.o_t
    t.out_n0 = t.o_t
    t.out_n1 = 1
    t.out_n2 = 1
    t.out_d0 = t.filter_bytes
    t.out_s0 = t.pitch_o
    t.out_s1 = 0
    t.out_s2 = 0
    t.out_length = t.n_a
    t.out_offset = t.filter_bytes * t.o0


def layout_sums(c, k, t):
    """A tile of NORM_SUMS: planes of whole channels."""
    t.n_a = k.SUMS_PLANES
    t.pitch_o = t.o_t
    t.c_used = t.o_t * t.n_a
    t.out_n0 = t.n_a
    t.out_n1 = 1
    t.out_n2 = 1
    t.out_d0 = c.c * k.operand_bytes
    t.out_s0 = t.o_t
    t.out_s1 = 0
    t.out_s2 = 0
    t.out_length = t.o_t
    t.out_offset = t.o0 * k.operand_bytes


def layout_tail(k, t):
    """The part of the result that isn't in those runs: bias gradients, unless their filters are whole."""
    t.tail = 1 if t.weight and t.ones and (t.i_t < t.ic or t.split) else 0
    t.tail_offset = t.filter_bytes * t.o0 + t.filter_bytes - k.operand_bytes


def over(c, t, *loops: str) -> bool:
    """Advance nested loops, innermost first, as a counter carries; true when the outermost of them is over.

    Loops inside it that are over begin anew. The compiler unrolls calls of this function, which are conditions.
    """
    for name in loops:
        place = getattr(t, f"{name}0") + getattr(t, f"{name}_t")
        setattr(t, f"{name}0", place)
        space, end = LOOP_ENDS[name]
        if place != getattr({"c": c, "t": t}[space], end):
            return False
        if name != loops[-1]:
            setattr(t, f"{name}0", 0)
    return True


def next_tile(c, t):
    """Next tile: reduction first, then the output loops in the order asked for; ``final`` after the last one."""
    if t.over_pixels:
        if over(c, t, "y", "n"):
            t.n0 = 0
            if t.pool:
                if over(c, t, "o"):
                    t.final = t.ending
            elif c.out_outer:
                if over(c, t, "i", "o"):
                    t.final = t.ending
            elif over(c, t, "o", "i"):
                t.final = t.ending
    else:
        t.i0 = t.ic if t.pool else t.i0 + t.i_t
        if t.i0 == t.ic:
            t.i0 = 0
            if c.out_outer:
                if over(c, t, "y", "n", "o"):
                    t.final = t.ending
            elif over(c, t, "o", "y", "n"):
                t.final = t.ending
