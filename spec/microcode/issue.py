"""A tile's descriptors for the engines.

Steps of the tile program: compiled like it (see :mod:`adagp.spec.microcode.program` for their language and names).
``t`` holds what steps hand to each other, other names are a step's own.
"""

from .depthwise import compute_depthwise, drain_depthwise, fill_vectors
from .norm import compute_norm, fill_norm
from .shape import align

__all__ = ["compute", "fill_a", "fill_b", "fill_c"]


def fill_a(c, k, m, t):
    """Fill A, unless it holds this very tile; for MAXPOOL_BACKWARD B with the index tensor, laid out alike."""
    t.new_a = 0
    t.new_b = 0
    if c.opcode != k.REORGANISE and (t.n0 != t.a_key_n or t.y0 != t.a_key_y or t.i0 != t.a_key_i):
        t.new_a = 1
        t.a_key_n = t.n0
        t.a_key_y = t.y0
        t.a_key_i = t.i0
        length = t.i_t
        run = t.columns
        if t.weight == 0 and t.dilate == 1 and t.i_t == t.ic and t.in_pitch == t.ic:
            length = t.columns * t.ic
            run = 1
        a_offset = t.in_image * t.n0 + t.in_line * t.lo + t.i0 * k.operand_bytes
        a_origin = t.pitch_y * t.top + t.pitch_x * t.pad_x
        s1 = t.pitch_y * t.dilate
        s2 = t.pitch_x * t.dilate
        m.fill(
            target=k.A, open=1, ready=1, clear=t.clear_a, clear_min=1 if c.opcode == k.MAXPOOL else 0,
            dram=t.a_base + a_offset,
            n0=t.n_t, n1=t.height, n2=run, d0=t.in_image, d1=t.in_line, d2=t.in_pixel,
            sp=a_origin, s0=t.pitch_n, s1=s1, s2=s2, length=length, step=t.pitch_c,
        )  # fmt: skip
        if c.opcode == k.MAXPOOL_BACKWARD:
            t.new_b = 1
            if t.a_used > k.b_elements:
                m.fail(k.B_OVERFLOW)
            m.fill(
                target=k.B, open=1, ready=1, clear=t.clear_a,
                dram=c.b_addr + a_offset,
                n0=t.n_t, n1=t.height, n2=run, d0=t.in_image, d1=t.in_line, d2=t.in_pixel,
                sp=a_origin, s0=t.pitch_n, s1=s1, s2=s2, length=length, step=1,
            )  # fmt: skip


def fill_b(c, k, m, t):
    """Fill B, unless it holds this very tile."""
    if (k.convolves_channels and t.depthwise) or (k.normalises and t.norm and t.over_pixels):
        fill_vectors(c, k, m, t)
    elif k.normalises and t.norm:
        fill_norm(c, k, m, t)
    else:
        fill_filters(c, k, m, t)


def fill_filters(c, k, m, t):
    """Fill B for a GEMM."""
    t.b_stride = t.n_k if c.opcode == k.FORWARD else align(t.n_k, 1, k.banks)
    if t.pool == 0 and (
        t.o0 != t.b_key_o
        or (t.weight and (t.n0 != t.b_key_n or t.y0 != t.b_key_y))
        or (t.weight == 0 and t.i0 != t.b_key_i)
    ):  # fmt: skip
        t.new_b = 1
        t.b_key_n = t.n0
        t.b_key_y = t.y0
        t.b_key_i = t.i0
        t.b_key_o = t.o0
        b_used = t.b_stride * t.o_t
        if b_used > k.b_elements:
            m.fail(k.B_OVERFLOW)
        if c.opcode == k.FORWARD:
            length = t.i_t
            run = t.taps
            if t.i_t == t.ic:
                length = t.n_k
                run = 1
            m.fill(
                target=k.B, open=1, ready=1,
                dram=c.b_addr + t.filter_bytes * t.o0 + t.i0 * k.operand_bytes,
                n0=t.o_t, n1=run, n2=1, d0=t.filter_bytes, d1=t.tap_bytes,
                s0=t.b_stride, s1=t.i_t, length=length, step=1,
            )  # fmt: skip
        if t.backward:  # transposed, taps reversed
            m.fill(
                target=k.B, open=1, ready=1,
                dram=t.b_base + t.filter_bytes * t.i0 + t.o0 * k.operand_bytes,
                n0=t.i_t, n1=t.r, n2=t.s, d0=t.filter_bytes, d1=t.tap_d1, d2=t.tap_d2,
                sp=t.n_k - t.i_t, s0=1, s1=0 - t.s * t.i_t, s2=0 - t.i_t, length=t.o_t, step=t.b_stride,
            )  # fmt: skip
        if t.weight:
            m.fill(
                target=k.B, open=1, ready=1,
                dram=c.b_addr + t.out_image * t.n0 + t.out_line * t.y0 + t.o0 * k.operand_bytes,
                n0=t.n_t, n1=t.y_t, n2=c.ow, d0=t.out_image, d1=t.out_line, d2=t.out_pixel,
                s0=t.out_w * t.y_t, s1=t.out_w, s2=1, length=t.o_t, step=t.b_stride,
            )  # fmt: skip


def fill_c(c, k, m, t):
    """Open half the C scratchpad and fill the bias and the C operand while the array works.

    One engine opens every half, so that halves are taken in program order, also from command to command.
    """
    opened = 0
    if c.bias and (c.opcode == k.FORWARD or (k.convolves_channels and c.opcode == k.DEPTHWISE)):
        if k.convolves_channels and t.depthwise:
            if t.o_t > k.bias_words * k.rows:
                m.fail(k.BIAS_OVERFLOW)
        elif t.o_t > k.bias_elements:
            m.fail(k.BIAS_OVERFLOW)
        opened = 1
        m.fill(
            target=k.BIAS, open=1, ready=0 if c.c_mode else 1, shift=t.shift_bias,
            dram=c.b_addr + t.tail_offset,
            n0=t.o_t, n1=1, n2=1, d0=t.filter_bytes, s0=1, length=1, step=1,
            vector=t.depthwise if k.convolves_channels else 0,
        )  # fmt: skip
    if k.normalises and t.norm and t.over_pixels:
        m.fill(target=k.C, open=1, ready=1, step=1)
    elif c.c_mode:
        address = c.c_addr
        pitch = c.c_pitch
        mark = 0
        more = 1 if c.c_mode == k.ADD_MASK else 0  # D is marked over C
        while mark <= more:
            full = 1 if mark == more else 0
            image = t.out_d0
            line = t.out_d1
            pixel = t.out_d2
            place = t.out_offset
            rows = t.out_n1
            columns = t.out_n2
            length = t.out_length
            if pitch > 0 and pitch != t.out_pitch and t.over_pixels == 0:  # pixel by pixel
                pixel = pitch * k.operand_bytes
                line = pixel * t.full_w
                image = line * t.full_h
                place = image * t.n0 + t.o0 * k.operand_bytes
                if t.split:
                    place = place + line * t.row + pixel * t.column
                    line = line * min(c.stride, c.h)
                    pixel = pixel * min(c.stride, c.w)
                place = place + line * t.y0
                rows = t.y_t
                columns = t.out_w
                length = t.o_t
            m.fill(
                target=k.C, open=1 - opened, ready=full if t.tail == 0 else 0, mark=mark,
                dram=address + place,
                n0=t.out_n0, n1=rows, n2=columns, d0=image, d1=line, d2=pixel,
                s0=t.out_s0, s1=t.out_s1, s2=t.out_s2, length=length, step=1,
            )  # fmt: skip
            if t.tail:
                m.fill(
                    target=k.C, ready=full, mark=mark,
                    dram=address + t.tail_offset,
                    n0=t.o_t, n1=1, n2=1, d0=t.out_d0, sp=t.taps * t.i_t, s0=t.out_s0, length=1, step=1,
                )  # fmt: skip
            opened = 1
            address = c.d_addr
            pitch = c.d_pitch
            mark = mark + 1
    elif opened == 0:
        m.fill(target=k.C, open=1, ready=1, step=1)


def compute(c, k, m, t):
    """Compute, and drain what is finished. jump_i: what the odometer adds to the address when level i steps."""
    t.x_step = t.pitch_x * t.step
    t.y_step = t.pitch_y * t.step
    t.s_walk = t.pitch_x * (t.s - 1)
    if c.opcode == k.REORGANISE:
        drain_sums(c, k, m, t)
    elif k.convolves_channels and t.depthwise:
        compute_depthwise(c, k, m, t)
        if t.last:
            drain_depthwise(c, k, m, t)
    elif k.normalises and t.norm:
        compute_norm(c, k, m, t)
    elif t.pool:
        compute_pool(c, k, m, t)
    else:
        if t.taps:
            compute_gemm(c, k, m, t)
        if t.last:
            drain_gemm(c, k, m, t)


def compute_pool(c, k, m, t):
    """One window a vector: its taps are streamed, ``rows`` channels at a time."""
    vector = k.SUM
    if c.opcode == k.MAXPOOL:
        vector = k.MAX
    if c.opcode == k.MAXPOOL_BACKWARD:
        vector = k.SELECT
    t.groups = (t.i_t + k.rows - 1) // k.rows
    lanes_last = t.i_t - (t.groups - 1) * k.rows
    taps_walk = t.pitch_y * (t.r - 1) + t.s_walk
    groups_walk = taps_walk + t.i_t - lanes_last
    x_walk = groups_walk + t.x_step * (t.out_w - 1)
    y_walk = x_walk + t.y_step * (t.y_t - 1)
    if k.drops:
        t.drop = c.momentum if c.opcode == k.AVGPOOL else 0
    m.compute(
        mode=vector, new_a=t.new_a, new_b=t.new_b, first=1, last=1,
        n0=t.n_t, n1=t.y_t, n2=t.out_w, n3=t.groups, n4=t.r, n5=t.s,
        jump0=t.pitch_n - y_walk, jump1=t.y_step - x_walk, jump2=t.x_step - groups_walk,
        jump3=k.rows - taps_walk, jump4=t.pitch_y - t.s_walk, jump5=t.pitch_x,
        k0=1, k1=1, k2=k.rows, kjump2=1, n_k=k.rows,
        n_a=t.taps, n_b=t.i_t if k.drops else 1, mantissa=c.const_mantissa if c.opcode >= k.AVGPOOL else 1,
        momentum=t.drop if k.drops else 0, unbiased=c.layer if k.drops else 0, b_stride=t.i0 if k.drops else 0,
        n_values=(t.n0 * t.out_h + t.y0) * t.out_w if k.drops else 0,
    )  # fmt: skip
    m.drain(
        vector=1, n_out=t.pixels, s_out=t.pitch_o, n_in=t.groups, s_in=k.rows, lane_step=1,
        lanes_last=lanes_last, last_inner=1,
        shift=t.shift, relu=c.relu, c_mode=c.c_mode, shift_c=t.shift_c, idx=t.idx,
        bound=c.bound_mantissa if k.clamps else 0, shift_bound=t.shift_bound if k.clamps else 0,
        slope=c.slope if k.clamps else 0,
        dry=c.dry, track=c.track, exponent=t.exp_out, id=c.out_id,
    )  # fmt: skip


def compute_gemm(c, k, m, t):
    """A GEMM over filters and pixels, or (BACKWARD_WEIGHT) over filters and taps."""
    if t.weight:
        c_walk = t.pitch_c * (t.i_t - 1)
        m.compute(
            mode=k.GEMM, new_a=t.new_a, new_b=t.new_b, first=t.first, last=t.last,
            swap=c.swap, ones=t.ones,
            n0=1, n1=1, n2=1, n3=t.r, n4=t.s, n5=t.i_t,
            jump3=t.pitch_y - t.s_walk - c_walk, jump4=1 - c_walk, jump5=t.pitch_c,
            k0=t.n_t, k1=t.y_t, k2=t.out_w,
            kjump0=t.pitch_n - t.pitch_y * (t.y_t - 1) - (t.out_w - 1),
            kjump1=t.pitch_y - (t.out_w - 1), kjump2=1,
            n_k=t.n_k, n_a=t.n_a, n_b=t.o_t, b_stride=t.b_stride,
        )  # fmt: skip
    else:
        x_walk = t.x_step * (t.out_w - 1)
        y_walk = x_walk + t.y_step * (t.y_t - 1)
        m.compute(
            mode=k.GEMM, new_a=t.new_a, new_b=t.new_b, first=t.first, last=t.last,
            swap=c.swap,
            n0=1, n1=1, n2=1, n3=t.n_t, n4=t.y_t, n5=t.out_w,
            jump3=t.pitch_n - y_walk, jump4=t.y_step - x_walk, jump5=t.x_step,
            k0=t.r, k1=t.s, k2=t.i_t,
            kjump0=t.pitch_y - t.s_walk - (t.i_t - 1), kjump1=1, kjump2=1,
            n_k=t.n_k, n_a=t.n_a, n_b=t.o_t, b_stride=t.b_stride,
        )  # fmt: skip


def drain_gemm(c, k, m, t):
    """Element (stream, stationary) of the GEMM goes to stream*along + stationary*across in C."""
    along = t.pitch_o
    across = 1
    if c.swap != t.weight:
        along = 1
        across = t.pitch_o
    m.drain(
        n_out=t.groups, s_out=k.cols * across, n_in=t.n_stream, s_in=along, lane_step=across,
        lanes_last=t.n_stat - (t.groups - 1) * k.cols,
        shift=t.shift, shift_ones=t.shift_ones, ones=t.ones, swap=c.swap,
        bias=c.bias if c.opcode == k.FORWARD else 0,
        relu=c.relu, c_mode=c.c_mode, shift_c=t.shift_c,
        bound=c.bound_mantissa if k.clamps else 0, shift_bound=t.shift_bound if k.clamps else 0,
        slope=c.slope if k.clamps else 0,
        dry=c.dry, track=c.track, exponent=t.exp_out, id=c.out_id,
        reorganise=c.reorganise if c.opcode == k.FORWARD else 0, fresh=1 if t.n0 + t.y0 == 0 else 0,
        at=t.o0 * 4, width=t.out_w, height=t.out_h, row=t.y0, rows=t.y_t, zeros=t.zeros,
    )  # fmt: skip


def drain_sums(c, k, m, t):
    """A tile of a REORGANISE: the drain alone makes it."""
    m.drain(
        vector=1, reorganise=1, at=t.o0, mantissa=c.const_mantissa,
        n_out=t.o_t, s_out=1, n_in=1, lane_step=1, lanes_last=1, last_inner=1,
        shift=t.shift, relu=c.relu, c_mode=c.c_mode, shift_c=t.shift_c,
        bound=c.bound_mantissa if k.clamps else 0, shift_bound=t.shift_bound if k.clamps else 0,
        slope=c.slope if k.clamps else 0,
        dry=c.dry, track=c.track, exponent=t.exp_out, id=c.out_id,
    )  # fmt: skip
