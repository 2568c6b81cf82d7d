"""Batch norm's part of the tile program.

Steps of the tile program: compiled like it (see :mod:`adagp.spec.microcode.program` for their language and names).
``t`` holds what steps hand to each other, other names are a step's own.
"""

__all__ = ["compute_norm", "fill_norm", "norm_dry_exponent", "norm_kind", "tables_tile"]


def norm_kind(c, k, m, t):
    """Find out what the command is to batch norm, and check its shape.

    ``tables``: a command of channels without values; ``counts``: one whose results depend on the number of values;
    ``squares``: NORM_SUMS of X and X, which B doesn't hold once more.
    """
    t.norm = 1 if c.opcode >= k.NORM_SUMS and c.opcode <= k.NORM_APPLY_BACKWARD else 0
    t.tables = 0
    t.counts = 0
    t.squares = 0
    if c.opcode == k.NORM_CONSTANTS or c.opcode == k.NORM_BACKWARD:
        t.tables = 1
        t.counts = 1
    if c.opcode == k.NORM_RUNNING:
        t.tables = 1
    if c.opcode == k.NORM_SUMS:
        t.counts = 1
        t.over_pixels = 1
        t.squares = 1 if c.b_addr == c.a_base and c.y_pitch == c.x_pitch else 0
    if c.opcode == k.NORM_APPLY_BACKWARD:
        t.backward = 1
    if t.norm and (c.r != 1 or c.s != 1 or c.stride != 1 or c.oh != c.h or c.ow != c.w):
        m.fail(k.BAD_GEOMETRY)


def norm_dry_exponent(c, k, t):
    """Exponent of a dry run's result."""
    t.exp_out = c.exp_b - 2
    if c.opcode == k.NORM_BACKWARD:
        t.exp_out = c.exp_a - 7
    if t.backward:
        t.exp_out = c.exp_a - c.exp_b - 16


def fill_norm(c, k, m, t):
    """Fill B with the constants of the tile's channels, and in the backward pass with X after them."""
    n_planes = k.BACKWARD_PLANES if t.backward else k.APPLY_PLANES
    t.n_b = n_planes + t.pixels * t.backward
    if t.o0 != t.b_key_o or (t.backward and (t.n0 != t.b_key_n or t.y0 != t.b_key_y)):
        t.new_b = 1
        t.b_key_n = t.n0
        t.b_key_y = t.y0
        t.b_key_o = t.o0
        if t.o_t * t.n_b > k.b_elements:
            m.fail(k.B_OVERFLOW)
        m.fill(
            target=k.B, open=1, ready=1 - t.backward,
            dram=c.e_addr + t.o0 * k.operand_bytes,
            n0=n_planes, n1=1, n2=1, d0=c.c * k.operand_bytes, s0=t.o_t, length=t.o_t, step=1,
        )  # fmt: skip
        if t.backward:
            line = t.out_w * t.o_t
            length = t.o_t
            run = t.out_w
            if t.o_t == t.oc and t.out_pitch == t.oc:
                length = line
                run = 1
            m.fill(
                target=k.B, ready=1,
                dram=c.b_addr + t.out_image * t.n0 + t.out_line * t.y0 + t.o0 * k.operand_bytes,
                n0=t.n_t, n1=t.y_t, n2=run, d0=t.out_image, d1=t.out_line, d2=t.out_pixel,
                sp=n_planes * t.o_t, s0=line * t.y_t, s1=line, s2=t.o_t, length=length, step=1,
            )  # fmt: skip


def compute_norm(c, k, m, t):
    """Sums of a tile's values, or new values."""
    t.groups = (t.o_t + k.rows - 1) // k.rows
    lanes_last = t.o_t - (t.groups - 1) * k.rows
    y_walk = t.x_step * (t.out_w - 1)
    n_walk = y_walk + t.y_step * (t.y_t - 1)
    if t.over_pixels:
        if t.groups * 2 > k.kept_words:
            m.fail(k.ACC_OVERFLOW)
        m.compute(
            mode=k.DIGITS, new_a=t.new_a, new_b=t.new_b, first=t.first, last=t.last, swap=t.squares,
            n0=1, n1=1, n2=1, n3=t.n_t, n4=t.y_t, n5=t.out_w,
            jump3=t.pitch_n - n_walk, jump4=t.y_step - y_walk, jump5=t.x_step,
            k0=1, k1=1, k2=t.i_t, kjump2=1, n_k=t.i_t,
            n_a=t.pixels, n_b=1, b_stride=t.b_stride,
        )  # fmt: skip
        if t.last:
            m.drain(
                vector=1, n_out=t.groups, s_out=k.rows, n_in=t.n_a, s_in=t.pitch_o, lane_step=1, lanes_last=lanes_last,
                dry=c.dry,
            )  # fmt: skip
    else:
        m.compute(
            mode=k.SCALE, new_a=t.new_a, new_b=t.new_b, first=1, last=1, task=k.BACKWARD if t.backward else k.BATCH,
            n0=1, n1=1, n2=1, n3=t.n_t, n4=t.y_t, n5=t.out_w,
            jump3=t.pitch_n - n_walk, jump4=t.y_step - y_walk, jump5=t.x_step,
            k0=1, k1=1, k2=t.i_t, kjump2=1, n_k=t.i_t,
            n_a=t.n_b, n_b=1, b_stride=t.o_t, exponent=t.exp_out - c.exp_a,
        )  # fmt: skip
        m.drain(
            vector=1, scaled=1, n_out=t.groups, s_out=k.rows, n_in=t.pixels, s_in=t.pitch_o, lane_step=1,
            lanes_last=lanes_last,
            relu=c.relu, c_mode=c.c_mode, shift_c=t.shift_c,
            bound=c.bound_mantissa if k.clamps else 0, shift_bound=t.shift_bound if k.clamps else 0,
            slope=c.slope if k.clamps else 0,
            dry=c.dry, track=c.track, exponent=t.exp_out, id=c.out_id,
        )  # fmt: skip


def tables_tile(c, k, m, t):
    """A tile of channels of a command that makes tables from tables; A holds them."""
    first = k.SUMS_PLANES
    second = k.WEIGHT_PLANES
    third = k.STATE_PLANES
    made = k.FORWARD_PLANES + k.STATE_PLANES
    kind = k.BATCH
    place = t.o0 * k.operand_bytes
    plane = c.c * k.operand_bytes
    b_place = place
    if c.opcode == k.NORM_RUNNING:
        first = 0
        made = k.FORWARD_PLANES
        kind = k.RUNNING
    if c.opcode == k.NORM_BACKWARD:
        second = k.KEPT_PLANES
        third = 0
        made = k.GRADIENT_PLANES + k.BACKWARD_PLANES
        kind = k.BACKWARD
        b_place = place + plane * (k.FORWARD_PLANES - k.KEPT_PLANES)
    n_planes = first + second + third
    if n_planes * t.o_t > k.a_elements:
        m.fail(k.A_OVERFLOW)
    if made * t.o_t > k.c_elements:
        m.fail(k.C_OVERFLOW)
    if first > 0:
        m.fill(
            target=k.A, open=1, dram=c.e_addr + place,
            n0=first, n1=1, n2=1, d0=plane, s0=t.o_t, length=t.o_t, step=1,
        )  # fmt: skip
    m.fill(
        target=k.A, open=1 if first == 0 else 0, ready=1 if third == 0 else 0, dram=c.b_addr + b_place,
        n0=second, n1=1, n2=1, d0=plane, sp=first * t.o_t, s0=t.o_t, length=t.o_t, step=1,
    )  # fmt: skip
    if third > 0:
        m.fill(
            target=k.A, ready=1, dram=c.c_addr + place,
            n0=third, n1=1, n2=1, d0=plane, sp=(first + second) * t.o_t, s0=t.o_t, length=t.o_t, step=1,
        )  # fmt: skip
    m.fill(target=k.C, open=1, ready=1, step=1)
    values = c.n * c.oh * c.ow if t.counts else 1
    groups = (t.o_t + k.rows - 1) // k.rows
    m.compute(
        mode=k.TABLES, new_a=1, first=1, last=1, n0=1, n1=1, n2=1, n3=1, n4=1, n5=n_planes, jump5=t.o_t,
        k0=1, k1=1, k2=t.o_t, kjump2=1, n_k=t.o_t, n_a=n_planes, n_b=1,
        exponent=t.exp_out, task=kind, n_values=values, mantissa=c.const_mantissa, epsilon_exponent=c.const_exponent,
        momentum=c.momentum, unbiased=c.unbiased_mantissa, unbiased_exponent=c.unbiased_exponent,
        w_exponent=c.exp_b, x_exponent=c.exp_b if third == 0 else c.exp_a, g_exponent=c.exp_a,
    )  # fmt: skip
    m.drain(
        vector=1, scaled=1, n_out=groups, s_out=k.rows, n_in=made, s_in=t.o_t, lane_step=1,
        lanes_last=t.o_t - (groups - 1) * k.rows,
        dry=c.dry, track=c.track if c.opcode == k.NORM_BACKWARD else 0, exponent=t.exp_out, id=c.out_id,
    )  # fmt: skip
    t.o0 = t.o0 + t.o_t
    if t.o0 == t.oc:
        t.final = 1
    states = 1 if kind == k.BATCH else 0
    m.store(
        begin=1, close=1 - states, done=t.final * (1 - states), dry=c.dry, dram=c.out_addr + place,
        n0=made - states * k.STATE_PLANES, n1=1, n2=1, d0=plane, s0=t.o_t, length=t.o_t,
    )  # fmt: skip
    if states:
        m.store(
            close=1, done=t.final, dry=c.dry, dram=c.c_addr + place,
            n0=k.STATE_PLANES, n1=1, n2=1, d0=plane, sp=t.o_t * k.FORWARD_PLANES, s0=t.o_t, length=t.o_t,
        )  # fmt: skip
