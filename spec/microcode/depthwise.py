"""A tile's descriptors for depthwise convolutions, whose lanes are channels.

Steps of the tile program: compiled like it (see :mod:`adagp.spec.microcode.program` for their language and names).
``t`` holds what steps hand to each other, other names are a step's own.
"""

from .shape import align

__all__ = ["compute_columns", "compute_depthwise", "drain_depthwise", "fill_vectors"]


def fill_vectors(c, k, m, t):
    """Fill B with vectors of neighbouring channels: taps of filters, or (over_pixels) pixels of dY."""
    if t.o0 != t.b_key_o or (t.over_pixels and (t.n0 != t.b_key_n or t.y0 != t.b_key_y)):
        t.new_b = 1 - t.squares if k.normalises else 1
        t.b_key_n = t.n0
        t.b_key_y = t.y0
        t.b_key_o = t.o0
        if t.over_pixels:
            t.b_stride = t.o_t
            if t.b_stride * t.pixels > k.b_elements:
                m.fail(k.B_OVERFLOW)
            line = t.out_w * t.o_t
            length = t.o_t
            run = t.out_w
            if t.o_t == t.oc and t.out_pitch == t.oc:
                length = line
                run = 1
            if t.new_b:
                m.fill(
                    target=k.B, open=1, ready=1,
                    dram=c.b_addr + t.out_image * t.n0 + t.out_line * t.y0 + t.o0 * k.operand_bytes,
                    n0=t.n_t, n1=t.y_t, n2=run, d0=t.out_image, d1=t.out_line, d2=t.out_pixel,
                    s0=line * t.y_t, s1=line, s2=t.o_t, length=length, step=1,
                )  # fmt: skip
        else:
            t.b_stride = align(t.o_t, 1, k.banks)
            step = t.b_stride
            origin = 0
            if t.backward:  # taps reversed
                t.b_stride = align(t.o_t, k.banks - 1, k.banks)
                step = 0 - t.b_stride
                origin = t.b_stride * (t.taps - 1)
            if t.b_stride * t.taps > k.b_elements:
                m.fail(k.B_OVERFLOW)
            m.fill(
                target=k.B, open=1, ready=1,
                dram=c.b_addr + t.filter_bytes * t.o0,
                n0=t.o_t, n1=1, n2=1, d0=t.filter_bytes, sp=origin, s0=1, length=t.taps, step=step,
            )  # fmt: skip


def compute_depthwise(c, k, m, t):
    """For each group of ``rows`` channels a window a pixel, or (over_pixels) one of all pixels for each tap."""
    taps_walk = t.pitch_y * (c.r - 1) + t.s_walk
    if c.s >= 2 and c.s <= 3 and t.step < c.s and c.r <= k.tap_rows:  # windows share columns
        compute_columns(c, k, m, t)
    elif t.over_pixels:
        y_walk = t.x_step * (t.out_w - 1)
        n_walk = y_walk + t.y_step * (t.y_t - 1)
        walk = n_walk + t.pitch_n * (t.n_t - 1)
        m.compute(
            mode=k.DOT, new_a=t.new_a, new_b=t.new_b, first=t.first, last=t.last, ones=t.ones,
            n0=1, n1=c.r, n2=c.s, n3=t.n_t, n4=t.y_t, n5=t.out_w,
            jump1=t.pitch_y - t.s_walk - walk, jump2=t.pitch_x - walk,
            jump3=t.pitch_n - n_walk, jump4=t.y_step - y_walk, jump5=t.x_step,
            k0=1, k1=1, k2=t.i_t, kjump0=0 - t.b_stride * (t.pixels - 1), kjump2=1, n_k=t.i_t,
            n_a=t.pixels, n_b=t.n_a, b_stride=t.b_stride,
        )  # fmt: skip
    else:
        x_walk = taps_walk + t.x_step * (t.out_w - 1)
        y_walk = x_walk + t.y_step * (t.y_t - 1)
        m.compute(
            mode=k.DOT, new_a=t.new_a, new_b=t.new_b, first=1, last=1,
            n0=1, n1=t.n_t, n2=t.y_t, n3=t.out_w, n4=c.r, n5=c.s,
            jump1=t.pitch_n - y_walk, jump2=t.y_step - x_walk, jump3=t.x_step - taps_walk,
            jump4=t.pitch_y - t.s_walk, jump5=t.pitch_x,
            k0=1, k1=1, k2=t.i_t, kjump0=0 - t.b_stride * (t.taps - 1), kjump2=1, n_k=t.i_t,
            n_a=t.taps, n_b=t.pixels, b_stride=t.b_stride,
        )  # fmt: skip


def compute_columns(c, k, m, t):
    """The same with each column walked once, for all the windows that it is in."""
    line_walk = t.pitch_x * (t.wide - 1)
    if t.over_pixels:
        y_walk = line_walk + t.y_step * (t.y_t - 1)
        n_walk = y_walk + t.pitch_n * (t.n_t - 1)
        m.compute(
            mode=k.DOT, new_a=t.new_a, new_b=t.new_b, first=t.first, last=t.last, ones=t.ones,
            n0=1, n1=c.r, n2=t.n_t, n3=t.y_t, n4=t.wide, n5=1,
            jump1=t.pitch_y - n_walk, jump2=t.pitch_n - y_walk, jump3=t.y_step - line_walk, jump4=t.pitch_x,
            k0=1, k1=1, k2=t.i_t, kjump0=0 - t.b_stride * (t.pixels - 1), kjump2=1, n_k=t.i_t,
            n_a=t.pixels, n_b=c.r + t.ones, b_stride=t.b_stride,
            task=c.s, mantissa=t.step, n_values=t.n_t * t.y_t * t.wide,
        )  # fmt: skip
    else:
        r_walk = t.pitch_y * (c.r - 1)
        x_walk = line_walk + r_walk
        y_walk = x_walk + t.y_step * (t.y_t - 1)
        m.compute(
            mode=k.DOT, new_a=t.new_a, new_b=t.new_b, first=1, last=1,
            n0=1, n1=1, n2=t.n_t, n3=t.y_t, n4=t.wide, n5=c.r,
            jump2=t.pitch_n - y_walk, jump3=t.y_step - x_walk, jump4=t.pitch_x - r_walk, jump5=t.pitch_y,
            k0=1, k1=1, k2=t.i_t, kjump2=1, n_k=t.i_t,
            n_a=t.taps, n_b=1, b_stride=t.b_stride, task=c.s, mantissa=t.step,
        )  # fmt: skip


def drain_depthwise(c, k, m, t):
    """Lanes are channels: of a pixel, or (over_pixels) of an element of their filters."""
    lane_step = 1
    along = t.pitch_o
    if t.over_pixels:
        lane_step = t.pitch_o
        along = 1
    t.groups = (t.o_t + k.rows - 1) // k.rows
    m.drain(
        vector=1, n_out=t.groups, s_out=k.rows * lane_step, n_in=t.n_a, s_in=along, lane_step=lane_step,
        lanes_last=t.o_t - (t.groups - 1) * k.rows,
        shift=t.shift, shift_ones=t.shift_ones, ones=t.ones,
        bias=c.bias if c.opcode == k.DEPTHWISE else 0,
        relu=c.relu, c_mode=c.c_mode, shift_c=t.shift_c,
        bound=c.bound_mantissa if k.clamps else 0, shift_bound=t.shift_bound if k.clamps else 0,
        slope=c.slope if k.clamps else 0,
        dry=c.dry, track=c.track, exponent=t.exp_out, id=c.out_id,
    )  # fmt: skip
