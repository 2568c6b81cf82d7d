"""The tile program: how one layer command becomes descriptors for the engines.

Written once, in the subset of Python that :mod:`adagp.spec.microcode` compiles for the sequencer
(integer locals, ``+ - * //``, comparisons, ``if``, ``while``, ``min``, ``max``, ``align``, and the
machine's ``fill``, ``compute``, ``drain``, ``store``, ``fail``); run as Python it serves as the
sequencer's reference and as the host's means to judge a mapping.

Names: ``in_*``/``out_*`` are the tensor that is read through the A scratchpad and the one written;
``ic``/``oc`` their channels; a trailing ``0`` marks a tile's first index, ``_t`` its extent.

The A scratchpad is laid out so that the ``rows`` operands of one reduction vector always lie in
different banks at consecutive residues (consecutive reduction indices differ by 1 modulo banks):
[n][y][x][c] with a row pitch congruent to S*c when channels are reduced, [c][n][y][x] with a row
pitch congruent to the row's length when pixels are (BACKWARD_WEIGHT). Zero rows, columns and the
zeros between strided gradients are really stored, so that reading needs no bounds checks.
"""

__all__ = ["tile_program"]


def align(value: int, residue: int, banks: int) -> int:
    """Least number >= value that is congruent to residue modulo banks."""
    return value + ((residue - value) % banks)


def tile_program(c, k, m):
    """Issue the descriptors of command ``c`` to machine ``m``.

    ``c`` has the command's fields plus ``a_base`` (operand A's address, ring resolved), ``exp_a``,
    ``exp_b``, ``exp_c``, ``exp_out``, ``dry`` (1 in calibration's first pass). ``k`` has the
    configuration's constants, opcodes and error codes. ``m.fail(code)`` does not return.
    """
    taps = c.r * c.s
    # --- checks -----------------------------------------------------------------------------
    if min(min(min(c.n, c.c), min(c.h, c.w)), min(min(c.oh, c.ow), min(c.q, min(taps, c.stride)))) == 0:
        m.fail(k.BAD_GEOMETRY)
    if min(min(c.nb, c.yb), min(c.cb, c.qb)) == 0:
        m.fail(k.BAD_TILE)
    if c.pad_y >= c.r:
        m.fail(k.BAD_GEOMETRY)
    if c.pad_x >= c.s:
        m.fail(k.BAD_GEOMETRY)
    if (c.oh - 1) * c.stride + c.r > c.h + 2 * c.pad_y:
        m.fail(k.BAD_GEOMETRY)
    if (c.ow - 1) * c.stride + c.s > c.w + 2 * c.pad_x:
        m.fail(k.BAD_GEOMETRY)
    pool = 0
    if c.opcode >= k.MAXPOOL:
        pool = 1
        if c.q != c.c:
            m.fail(k.BAD_GEOMETRY)
    backward = 0
    if c.opcode == k.BACKWARD_DATA:
        backward = 1
    if c.opcode == k.MAXPOOL_BACKWARD:
        backward = 1
    if c.opcode == k.AVGPOOL_BACKWARD:
        backward = 1
    weight = 0
    if c.opcode == k.BACKWARD_WEIGHT:
        weight = 1

    # --- which tensor is walked by which -----------------------------------------------------
    # Virtual grid: the input, dilated by ``dilate`` and padded; windows step over it by ``step``.
    in_h = c.h
    in_w = c.w
    out_h = c.oh
    out_w = c.ow
    ic = c.c
    oc = c.q
    ic_tile = min(c.cb, c.c)
    oc_tile = min(c.qb, c.q)
    step = c.stride
    dilate = 1
    pad_y = c.pad_y
    pad_x = c.pad_x
    if backward:
        in_h = c.oh
        in_w = c.ow
        out_h = c.h
        out_w = c.w
        ic = c.q
        oc = c.c
        ic_tile = min(c.qb, c.q)
        oc_tile = min(c.cb, c.c)
        step = 1
        dilate = c.stride
        pad_y = c.r - 1 - c.pad_y
        pad_x = c.s - 1 - c.pad_x
    if pool:
        oc_tile = ic_tile  # one channel loop: the output's
    filter_elements = taps * c.c + 1
    reduction = taps * ic
    if weight:
        reduction = c.n * c.oh * c.ow
    if pool == 0:
        if reduction > k.max_reduction:
            m.fail(k.ACC_OVERFLOW)

    # --- exponents ---------------------------------------------------------------------------
    exp_acc = c.exp_a + c.exp_b
    if pool:
        exp_acc = c.exp_a
        if c.opcode >= k.AVGPOOL:
            exp_acc = c.exp_a + c.const_exponent
    exp_out = c.exp_out
    if c.dry:
        exp_out = exp_acc
    shift = max(k.SHIFT_MIN, min(k.SHIFT_MAX, exp_out - exp_acc))
    shift_ones = max(k.SHIFT_MIN, min(k.SHIFT_MAX, exp_out - c.exp_b))
    shift_bias = max(-31, min(31, exp_out - c.exp_b))
    shift_c = max(-31, min(31, exp_out - c.exp_c))

    # --- sizes that don't change from tile to tile ---------------------------------------------
    # BACKWARD_WEIGHT reduces over a grid of dilated output positions with unit stride.
    grid_w = (out_w - 1) * step + 1
    wide = (out_w - 1) * step + c.s
    columns = min(in_w, (max(0, wide - pad_x) + dilate - 1) // dilate)
    pad_min = 0
    if c.opcode == k.MAXPOOL:
        pad_min = 1

    # --- tile loops: images, rows, output channels (either order), then the reduction's -----------
    # BACKWARD_WEIGHT: the "output" loops run over filters and input channels.
    n0 = 0
    y0 = 0
    o0 = 0
    i0 = 0
    n_t = min(c.nb, c.n)
    y_t = min(c.yb, out_h)
    o_t = oc_tile
    i_t = ic_tile
    a_key_n = -1
    a_key_y = -1
    a_key_i = -1
    b_key_n = -1
    b_key_y = -1
    b_key_i = -1
    b_key_o = -1
    first = 1
    last = 0
    running = 1
    while running:
        # Extents of this tile.
        n_t = min(min(c.nb, c.n), c.n - n0)
        y_t = min(min(c.yb, out_h), out_h - y0)
        o_t = min(oc_tile, oc - o0)
        i_t = min(ic_tile, ic - i0)
        if pool:
            i0 = o0
            i_t = o_t
        # Rows of the input this tile touches: lo..hi, the first at virtual row ``top`` of the tile.
        grid_t = (y_t - 1) * step + 1
        tall = grid_t - 1 + c.r
        row0 = y0 * step - pad_y
        lo = max(0, row0 + dilate - 1) // dilate
        hi = min(in_h, max(0, row0 + tall + dilate - 1) // dilate)
        height = max(0, hi - lo)
        top = lo * dilate - row0
        if height == 0:
            top = 0
        pixels = n_t * y_t * out_w
        n_k = taps * i_t
        pitch_x = i_t
        pitch_y = align(wide * i_t, c.s * i_t, k.banks)
        pitch_n = tall * pitch_y
        pitch_c = 1
        a_used = n_t * pitch_n
        grid = n_t * grid_t * grid_w
        if weight:
            pitch_x = 1
            pitch_y = align(wide, grid_w, k.banks)
            pitch_n = align(tall * pitch_y, grid_t * grid_w, k.banks)
            pitch_c = align(n_t * pitch_n, 1, k.banks)
            a_used = i_t * pitch_c
            n_k = grid
        if pitch_y > k.a_elements:
            m.fail(k.A_OVERFLOW)
        if pitch_n > k.a_elements:
            m.fail(k.A_OVERFLOW)
        if a_used > k.a_elements:
            m.fail(k.A_OVERFLOW)

        clear_a = 0  # where some of the window is padding or dilation
        if height * columns < tall * wide:
            clear_a = a_used

        # Fill A, unless it holds this very tile.
        new_a = 0
        if n0 != a_key_n:
            new_a = 1
        if y0 != a_key_y:
            new_a = 1
        if i0 != a_key_i:
            new_a = 1
        length = i_t
        run = columns
        if weight == 0:
            if dilate == 1:
                if i_t == ic:
                    length = columns * ic
                    run = 1
        a_offset = ((n0 * in_h + lo) * in_w * ic + i0) * k.operand_bytes
        a_line = in_w * ic * k.operand_bytes
        if new_a:
            m.fill(
                target=k.A, open=1, ready=1, clear=clear_a, clear_min=pad_min,
                dram=c.a_base + a_offset,
                n0=n_t, n1=height, n2=run,
                d0=in_h * a_line, d1=a_line, d2=ic * k.operand_bytes,
                sp=top * pitch_y + pad_x * pitch_x,
                s0=pitch_n, s1=dilate * pitch_y, s2=dilate * pitch_x,
                length=length, step=pitch_c,
            )  # fmt: skip
            a_key_n = n0
            a_key_y = y0
            a_key_i = i0

        # Fill B, unless it holds this very tile.
        new_b = 0
        b_stride = n_k
        if pool == 0:
            if o0 != b_key_o:
                new_b = 1
            if weight:
                b_stride = align(grid, 1, k.banks)
                if n0 != b_key_n:
                    new_b = 1
                if y0 != b_key_y:
                    new_b = 1
            else:
                if i0 != b_key_i:
                    new_b = 1
            if backward:
                b_stride = align(n_k, 1, k.banks)
            if b_stride > k.b_elements:
                m.fail(k.B_OVERFLOW)
            if o_t * b_stride > k.b_elements:
                m.fail(k.B_OVERFLOW)
        if new_b:
            if c.opcode == k.FORWARD:
                length = i_t
                run = taps
                if i_t == ic:
                    length = n_k
                    run = 1
                m.fill(
                    target=k.B, open=1, ready=1,
                    dram=c.b_addr + (o0 * filter_elements + i0) * k.operand_bytes,
                    n0=o_t, n1=run, n2=1, d0=filter_elements * k.operand_bytes, d1=c.c * k.operand_bytes,
                    s0=b_stride, s1=i_t, length=length, step=1,
                )  # fmt: skip
            if backward:  # transposed, taps reversed
                m.fill(
                    target=k.B, open=1, ready=1,
                    dram=c.b_addr + (i0 * filter_elements + o0) * k.operand_bytes,
                    n0=i_t, n1=taps, n2=1, d0=filter_elements * k.operand_bytes, d1=c.c * k.operand_bytes,
                    sp=(taps - 1) * i_t, s0=1, s1=0 - i_t, length=o_t, step=b_stride,
                )  # fmt: skip
            if weight:
                clear = 0
                if step > 1:
                    clear = o_t * b_stride
                m.fill(
                    target=k.B, open=1, ready=1, clear=clear,
                    dram=c.b_addr + ((n0 * c.oh + y0) * c.ow * c.q + o0) * k.operand_bytes,
                    n0=n_t, n1=y_t, n2=c.ow,
                    d0=c.oh * c.ow * c.q * k.operand_bytes, d1=c.ow * c.q * k.operand_bytes,
                    d2=c.q * k.operand_bytes,
                    s0=grid_t * grid_w, s1=step * grid_w, s2=step, length=o_t, step=b_stride,
                )  # fmt: skip
            b_key_n = n0
            b_key_y = y0
            b_key_i = i0
            b_key_o = o0
        if c.opcode == k.MAXPOOL_BACKWARD:  # the index tensor, laid out as A
            if a_used > k.b_elements:
                m.fail(k.B_OVERFLOW)
            new_b = new_a
            if new_a:
                m.fill(
                    target=k.B, open=1, ready=1, clear=clear_a,
                    dram=c.b_addr + a_offset,
                    n0=n_t, n1=height, n2=run,
                    d0=in_h * a_line, d1=a_line, d2=ic * k.operand_bytes,
                    sp=top * pitch_y + pad_x * pitch_x,
                    s0=pitch_n, s1=dilate * pitch_y, s2=dilate * pitch_x,
                    length=length, step=1,
                )  # fmt: skip

        # The reduction's place in its loop.
        if pool:
            last = 1
        else:
            if weight:
                first = 0
                if n0 + y0 == 0:
                    first = 1
                last = 0
                if n0 + n_t == c.n:
                    if y0 + y_t == out_h:
                        last = 1
            else:
                first = 0
                if i0 == 0:
                    first = 1
                last = 0
                if i0 + i_t == ic:
                    last = 1

        # GEMM shape of this tile and the C scratchpad's layout: [pixel][channel] or [filter][element].
        ones = 0
        n_a = pixels
        if weight:
            if c.bias:
                if i0 + i_t == ic:
                    ones = 1
            n_a = taps * i_t + ones
        n_stream = n_a
        n_stat = o_t
        if c.swap:
            n_stream = o_t
            n_stat = n_a
        groups = (n_stat + k.cols - 1) // k.cols
        pitch_o = o_t
        if weight:
            pitch_o = n_a
            if c.swap == 0:
                pitch_o = align(n_a, 1, k.banks)
        else:
            if pool == 0:
                if c.swap:
                    pitch_o = align(o_t, 1, k.banks)
        c_used = pixels * pitch_o
        if weight:
            c_used = o_t * pitch_o
        idx = 0
        if c.opcode == k.MAXPOOL:
            idx = c_used
            c_used = 2 * c_used
        if pool == 0:
            if n_stream > k.acc_depth:
                m.fail(k.ACC_OVERFLOW)
            if groups > k.acc_depth:
                m.fail(k.ACC_OVERFLOW)
            if n_stream * groups > k.acc_depth:
                m.fail(k.ACC_OVERFLOW)
        if pitch_o > k.c_elements:
            m.fail(k.C_OVERFLOW)
        if c_used > k.c_elements:
            m.fail(k.C_OVERFLOW)

        # Where the result goes: one run of the output tensor per image and pixel (or filter and tap).
        out_n0 = n_t
        out_n1 = y_t * out_w
        out_d0 = out_h * out_w * oc * k.operand_bytes
        out_d1 = oc * k.operand_bytes
        out_s0 = y_t * out_w * pitch_o
        out_s1 = pitch_o
        out_length = o_t
        out_offset = ((n0 * out_h + y0) * out_w * oc + o0) * k.operand_bytes
        if pitch_o == oc:
            if o_t == oc:
                out_length = out_n1 * oc
                out_n1 = 1
        if weight:
            out_n0 = o_t
            out_n1 = taps
            out_d0 = filter_elements * k.operand_bytes
            out_d1 = c.c * k.operand_bytes
            out_s0 = pitch_o
            out_s1 = i_t
            out_length = i_t
            out_offset = (o0 * filter_elements + i0) * k.operand_bytes
            if i_t == ic:
                out_n1 = 1
                out_length = n_a

        # The part of the result that isn't in those runs: bias gradients, when channels come in tiles.
        tail = ones
        if out_length == n_a:
            tail = 0
        tail_offset = (o0 * filter_elements + filter_elements - 1) * k.operand_bytes

        # Open half the C scratchpad and fill the bias and the C operand while the array works. One engine
        # opens every half, so that halves are taken in program order, also from command to command.
        if last:
            opened = 0
            if c.opcode == k.FORWARD:
                if c.bias:
                    if o_t > k.bias_elements:
                        m.fail(k.BIAS_OVERFLOW)
                    opened = 1
                    ready = 1
                    if c.c_mode:
                        ready = 0
                    m.fill(
                        target=k.BIAS, open=1, ready=ready, shift=shift_bias,
                        dram=c.b_addr + tail_offset,
                        n0=o_t, n1=1, n2=1, d0=filter_elements * k.operand_bytes, s0=1, length=1, step=1,
                    )  # fmt: skip
            if c.c_mode:
                m.fill(
                    target=k.C, open=1 - opened, ready=1 - tail,
                    dram=c.c_addr + out_offset,
                    n0=out_n0, n1=out_n1, n2=1, d0=out_d0, d1=out_d1,
                    s0=out_s0, s1=out_s1, length=out_length, step=1,
                )  # fmt: skip
                if tail:
                    m.fill(
                        target=k.C, ready=1,
                        dram=c.c_addr + tail_offset,
                        n0=o_t, n1=1, n2=1, d0=out_d0, sp=taps * i_t, s0=out_s0, length=1, step=1,
                    )  # fmt: skip
            else:
                if opened == 0:
                    m.fill(target=k.C, open=1, ready=1, step=1)

        # Compute. jump_i: what the odometer adds to the address when level i steps.
        if pool:
            vector = k.SUM
            if c.opcode == k.MAXPOOL:
                vector = k.MAX
            if c.opcode == k.MAXPOOL_BACKWARD:
                vector = k.SELECT
            mantissa = 1
            if c.opcode >= k.AVGPOOL:
                mantissa = c.const_mantissa
            groups = (i_t + k.rows - 1) // k.rows
            taps_walk = (c.r - 1) * pitch_y + (c.s - 1) * pitch_x
            groups_walk = taps_walk + (groups - 1) * k.rows
            x_walk = groups_walk + (out_w - 1) * step * pitch_x
            y_walk = x_walk + (y_t - 1) * step * pitch_y
            m.compute(
                mode=vector, new_a=new_a, new_b=new_b, first=1, last=1,
                n0=n_t, n1=y_t, n2=out_w, n3=groups, n4=c.r, n5=c.s,
                jump0=pitch_n - y_walk, jump1=step * pitch_y - x_walk, jump2=step * pitch_x - groups_walk,
                jump3=k.rows - taps_walk, jump4=pitch_y - (c.s - 1) * pitch_x, jump5=pitch_x,
                k0=1, k1=1, k2=k.rows, kjump2=1, n_k=k.rows,
                n_a=taps, n_b=1, mantissa=mantissa, lanes_last=i_t - (groups - 1) * k.rows,
            )  # fmt: skip
            m.drain(
                vector=1, need_fill=1,
                n_out=pixels, s_out=pitch_o, n_in=groups, s_in=k.rows, lane_step=1,
                lanes_last=i_t - (groups - 1) * k.rows, last_inner=1,
                shift=shift, relu=c.relu, c_mode=c.c_mode, shift_c=shift_c, idx=idx,
                dry=c.dry, track=c.track, exponent=exp_out, id=c.out_id,
            )  # fmt: skip
        else:
            if weight:
                m.compute(
                    mode=k.GEMM, new_a=new_a, new_b=new_b, first=first, last=last,
                    swap=c.swap, ones=ones,
                    n0=1, n1=1, n2=1, n3=c.r, n4=c.s, n5=i_t,
                    jump3=pitch_y - (c.s - 1) - (i_t - 1) * pitch_c, jump4=1 - (i_t - 1) * pitch_c,
                    jump5=pitch_c,
                    k0=n_t, k1=grid_t, k2=grid_w,
                    kjump0=pitch_n - (grid_t - 1) * pitch_y - (grid_w - 1),
                    kjump1=pitch_y - (grid_w - 1), kjump2=1,
                    n_k=n_k, n_a=n_a, n_b=o_t, b_stride=b_stride,
                )  # fmt: skip
            else:
                x_walk = (out_w - 1) * step * pitch_x
                y_walk = x_walk + (y_t - 1) * step * pitch_y
                m.compute(
                    mode=k.GEMM, new_a=new_a, new_b=new_b, first=first, last=last,
                    swap=c.swap,
                    n0=1, n1=1, n2=1, n3=n_t, n4=y_t, n5=out_w,
                    jump3=pitch_n - y_walk, jump4=step * pitch_y - x_walk, jump5=step * pitch_x,
                    k0=c.r, k1=c.s, k2=i_t,
                    kjump0=pitch_y - (c.s - 1) * pitch_x - (i_t - 1), kjump1=pitch_x - (i_t - 1), kjump2=1,
                    n_k=n_k, n_a=n_a, n_b=o_t, b_stride=b_stride,
                )  # fmt: skip
            if last:
                # Element (stream, stationary) of the GEMM: at stream*along + stationary*across in C.
                along = pitch_o
                across = 1
                if c.swap != weight:
                    along = 1
                    across = pitch_o
                m.drain(
                    need_fill=1,
                    n_out=groups, s_out=k.cols * across, n_in=n_stream, s_in=along, lane_step=across,
                    lanes_last=n_stat - (groups - 1) * k.cols,
                    shift=shift, shift_ones=shift_ones, ones=ones, swap=c.swap,
                    bias=c.bias * (1 - weight) * (1 - backward),
                    relu=c.relu, c_mode=c.c_mode, shift_c=shift_c,
                    dry=c.dry, track=c.track, exponent=exp_out, id=c.out_id,
                )  # fmt: skip

        # Next tile: reduction first, then the output loops in the order asked for.
        final = 0
        if weight:
            y0 = y0 + y_t
            if y0 == out_h:
                y0 = 0
                n0 = n0 + n_t
                if n0 == c.n:
                    n0 = 0
                    if c.out_outer:
                        i0 = i0 + i_t
                        if i0 == ic:
                            i0 = 0
                            o0 = o0 + o_t
                            if o0 == oc:
                                final = 1
                    else:
                        o0 = o0 + o_t
                        if o0 == oc:
                            o0 = 0
                            i0 = i0 + i_t
                            if i0 == ic:
                                final = 1
        else:
            if pool:
                i0 = ic
            else:
                i0 = i0 + i_t
            if i0 == ic:
                i0 = 0
                if c.out_outer:
                    y0 = y0 + y_t
                    if y0 == out_h:
                        y0 = 0
                        n0 = n0 + n_t
                        if n0 == c.n:
                            n0 = 0
                            o0 = o0 + o_t
                            if o0 == oc:
                                final = 1
                else:
                    o0 = o0 + o_t
                    if o0 == oc:
                        o0 = 0
                        y0 = y0 + y_t
                        if y0 == out_h:
                            y0 = 0
                            n0 = n0 + n_t
                            if n0 == c.n:
                                final = 1

        # Store the finished output tile.
        if last:
            more = tail
            if idx:
                more = 1
            m.store(
                begin=1, close=1 - more, done=final * (1 - more), dry=c.dry,
                dram=c.out_addr + out_offset, n0=out_n0, n1=out_n1, d0=out_d0, d1=out_d1,
                s0=out_s0, s1=out_s1, length=out_length,
            )  # fmt: skip
            if idx:
                m.store(
                    close=1, done=final, dry=c.dry,
                    dram=c.b_addr + out_offset, n0=out_n0, n1=out_n1, d0=out_d0, d1=out_d1,
                    sp=idx, s0=out_s0, s1=out_s1, length=out_length,
                )  # fmt: skip
            if tail:
                m.store(
                    close=1, done=final, dry=c.dry,
                    dram=c.out_addr + tail_offset,
                    n0=out_n0, n1=1, d0=out_d0, sp=taps * i_t, s0=out_s0, length=1,
                )  # fmt: skip
        if final:
            running = 0
