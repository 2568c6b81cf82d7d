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

__all__ = ["align", "tile_program"]


def align(value: int, residue: int, banks: int) -> int:
    """Least number >= value that is congruent to residue modulo banks."""
    return value + ((residue - value) % banks)


def tile_program(c, k, m):
    """Issue the descriptors of command ``c`` to machine ``m``.

    ``c`` has the command's fields plus ``a_base`` (operand A's address, ring resolved), ``exp_a``,
    ``exp_b``, ``exp_c``, ``exp_out``, ``dry`` (1 in calibration's first pass). ``k`` has the
    configuration's constants, opcodes and error codes. ``m.fail(code)`` does not return.
    """
    # --- checks -----------------------------------------------------------------------------
    # Each product is less than 2^30 in the hardware, which answers BAD_GEOMETRY otherwise; so it is
    # enough to check the largest of several sizes.
    taps = c.r * c.s
    if c.n == 0 or c.c == 0 or c.q == 0 or c.h == 0 or c.w == 0 or c.oh == 0 or c.ow == 0 or c.stride == 0:
        m.fail(k.BAD_GEOMETRY)
    if c.nb == 0 or c.yb == 0 or c.cb == 0 or c.qb == 0:
        m.fail(k.BAD_TILE)
    if c.pad_y >= c.r or c.pad_x >= c.s:  # also when r or s is 0
        m.fail(k.BAD_GEOMETRY)
    if (c.oh - 1) * c.stride + c.r > c.h + 2 * c.pad_y or (c.ow - 1) * c.stride + c.s > c.w + 2 * c.pad_x:
        m.fail(k.BAD_GEOMETRY)
    if c.opcode >= k.MAXPOOL and c.q != c.c:
        m.fail(k.BAD_GEOMETRY)
    pool = 1 if c.opcode >= k.MAXPOOL else 0
    weight = 1 if c.opcode == k.BACKWARD_WEIGHT else 0
    backward = 0
    if c.opcode == k.BACKWARD_DATA or c.opcode == k.MAXPOOL_BACKWARD or c.opcode == k.AVGPOOL_BACKWARD:
        backward = 1

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
    reduction = c.n * c.oh * c.ow if weight else taps * ic
    if pool == 0 and reduction > k.max_reduction:
        m.fail(k.ACC_OVERFLOW)
    if c.opcode >= k.AVGPOOL and taps > k.max_average_taps:
        m.fail(k.ACC_OVERFLOW)
    if pool and c.opcode < k.AVGPOOL and taps > k.max_index:
        m.fail(k.BAD_GEOMETRY)

    # --- exponents ---------------------------------------------------------------------------
    exp_acc = c.exp_a + c.exp_b
    if pool:
        exp_acc = c.exp_a + c.const_exponent if c.opcode >= k.AVGPOOL else c.exp_a
    exp_out = exp_acc if c.dry else c.exp_out
    shift = max(k.SHIFT_MIN, min(k.SHIFT_MAX, exp_out - exp_acc))
    shift_ones = max(k.SHIFT_MIN, min(k.SHIFT_MAX, exp_out - c.exp_b))
    shift_bias = max(-31, min(31, exp_out - c.exp_b))
    shift_c = max(-31, min(31, exp_out - c.exp_c))

    # --- sizes that don't change from tile to tile ---------------------------------------------
    # BACKWARD_WEIGHT reduces over a grid of dilated output positions with unit stride.
    grid_w = (out_w - 1) * step + 1
    wide = grid_w - 1 + c.s
    columns = min(in_w, (wide - pad_x + dilate - 1) // dilate)
    in_pixel = ic * k.operand_bytes
    in_line = in_pixel * in_w
    in_image = in_line * in_h
    out_pixel = oc * k.operand_bytes
    out_line = out_pixel * out_w
    out_image = out_line * out_h
    filter_bytes = filter_elements * k.operand_bytes
    tap_bytes = c.c * k.operand_bytes
    # So that no offset in a tensor is a product too large, which would be noticed in the middle of the command.
    if in_image * c.n >= k.TENSOR_BYTES or out_image * c.n >= k.TENSOR_BYTES:
        m.fail(k.BAD_GEOMETRY)
    if pool == 0 and filter_bytes * c.q >= k.TENSOR_BYTES:
        m.fail(k.BAD_GEOMETRY)

    # --- tile loops: images, rows, output channels (either order), then the reduction's -----------
    # BACKWARD_WEIGHT: the "output" loops run over filters and input channels.
    n0 = 0
    y0 = 0
    o0 = 0
    i0 = 0
    a_key_n = -1  # the tiles that the scratchpads hold
    a_key_y = -1
    a_key_i = -1
    b_key_n = -1
    b_key_y = -1
    b_key_i = -1
    b_key_o = -1
    final = 0
    while final == 0:
        o_t = min(oc_tile, oc - o0)
        if pool:
            i0 = o0
        i_t = min(ic_tile, ic - i0)
        # first, last: the reduction begins or ends here.
        first = 1
        if (weight and n0 + y0 > 0) or (weight == 0 and pool == 0 and i0 > 0):
            first = 0

        # Rows of the input this tile touches: lo..hi, the first at virtual row ``top`` of the tile.
        if weight or first:
            n_t = min(c.nb, c.n - n0)
            y_t = min(c.yb, out_h - y0)
            pixels = out_w * y_t * n_t
            grid_t = (y_t - 1) * step + 1
            tall = grid_t - 1 + c.r
            row0 = y0 * step - pad_y
            lo = max(0, row0)
            hi = row0 + tall
            if dilate > 1:
                lo = (lo + dilate - 1) // dilate
                hi = (hi + dilate - 1) // dilate
            height = max(0, min(in_h, hi) - lo)
            top = dilate * lo - row0 if height > 0 else 0
            holes = 1 if columns * height < wide * tall else 0  # some of it is padding or dilation
        last = 1
        if (weight and (n0 + n_t < c.n or y0 + y_t < out_h)) or (weight == 0 and i0 + i_t < ic):
            last = 0 if pool == 0 else 1

        # The A scratchpad's layout.
        if weight:
            pitch_x = 1
            pitch_y = align(wide, grid_w, k.banks)
            n_k = grid_w * grid_t
            pitch_n = align(pitch_y * tall, n_k, k.banks)
            pitch_c = align(pitch_n * n_t, 1, k.banks)
            n_k = n_k * n_t
            a_used = pitch_c * i_t
        else:
            pitch_x = i_t
            pitch_y = align(wide * i_t, c.s * i_t, k.banks)
            pitch_n = pitch_y * tall
            pitch_c = 1
            n_k = taps * i_t
            a_used = pitch_n * n_t
        if a_used > k.a_elements:
            m.fail(k.A_OVERFLOW)
        clear_a = a_used if holes else 0

        # Fill A, unless it holds this very tile; for MAXPOOL_BACKWARD B with the index tensor, laid out alike.
        new_a = 0
        new_b = 0
        if n0 != a_key_n or y0 != a_key_y or i0 != a_key_i:
            new_a = 1
            a_key_n = n0
            a_key_y = y0
            a_key_i = i0
            length = i_t
            run = columns
            if weight == 0 and dilate == 1 and i_t == ic:
                length = columns * ic
                run = 1
            a_offset = in_image * n0 + in_line * lo + i0 * k.operand_bytes
            a_origin = pitch_y * top + pitch_x * pad_x
            s1 = pitch_y * dilate
            s2 = pitch_x * dilate
            m.fill(
                target=k.A, open=1, ready=1, clear=clear_a, clear_min=1 if c.opcode == k.MAXPOOL else 0,
                dram=c.a_base + a_offset,
                n0=n_t, n1=height, n2=run, d0=in_image, d1=in_line, d2=in_pixel,
                sp=a_origin, s0=pitch_n, s1=s1, s2=s2, length=length, step=pitch_c,
            )  # fmt: skip
            if c.opcode == k.MAXPOOL_BACKWARD:
                new_b = 1
                if a_used > k.b_elements:
                    m.fail(k.B_OVERFLOW)
                m.fill(
                    target=k.B, open=1, ready=1, clear=clear_a,
                    dram=c.b_addr + a_offset,
                    n0=n_t, n1=height, n2=run, d0=in_image, d1=in_line, d2=in_pixel,
                    sp=a_origin, s0=pitch_n, s1=s1, s2=s2, length=length, step=1,
                )  # fmt: skip

        # Fill B, unless it holds this very tile.
        b_stride = n_k if c.opcode == k.FORWARD else align(n_k, 1, k.banks)
        if pool == 0 and (
            o0 != b_key_o
            or (weight and (n0 != b_key_n or y0 != b_key_y))
            or (weight == 0 and i0 != b_key_i)
        ):  # fmt: skip
            new_b = 1
            b_key_n = n0
            b_key_y = y0
            b_key_i = i0
            b_key_o = o0
            b_used = b_stride * o_t
            if b_used > k.b_elements:
                m.fail(k.B_OVERFLOW)
            if c.opcode == k.FORWARD:
                length = i_t
                run = taps
                if i_t == ic:
                    length = n_k
                    run = 1
                m.fill(
                    target=k.B, open=1, ready=1,
                    dram=c.b_addr + filter_bytes * o0 + i0 * k.operand_bytes,
                    n0=o_t, n1=run, n2=1, d0=filter_bytes, d1=tap_bytes,
                    s0=b_stride, s1=i_t, length=length, step=1,
                )  # fmt: skip
            if backward:  # transposed, taps reversed
                m.fill(
                    target=k.B, open=1, ready=1,
                    dram=c.b_addr + filter_bytes * i0 + o0 * k.operand_bytes,
                    n0=i_t, n1=taps, n2=1, d0=filter_bytes, d1=tap_bytes,
                    sp=n_k - i_t, s0=1, s1=0 - i_t, length=o_t, step=b_stride,
                )  # fmt: skip
            if weight:
                m.fill(
                    target=k.B, open=1, ready=1, clear=b_used if step > 1 else 0,
                    dram=c.b_addr + out_image * n0 + out_line * y0 + o0 * k.operand_bytes,
                    n0=n_t, n1=y_t, n2=c.ow, d0=out_image, d1=out_line, d2=out_pixel,
                    s0=grid_w * grid_t, s1=grid_w * step, s2=step, length=o_t, step=b_stride,
                )  # fmt: skip

        # A new output tile: shape of the GEMM, layout of the C scratchpad ([pixel][channel] or
        # [filter][element]), and where it goes: runs of the output tensor, one per image and pixel
        # (or per filter and tap).
        if first:
            if weight:
                ones = 1 if c.bias and i0 + i_t == ic else 0
                n_a = taps * i_t + ones
                pitch_o = n_a if c.swap else align(n_a, 1, k.banks)
                c_used = pitch_o * o_t
                out_n0 = o_t
                out_n1 = taps
                out_d0 = filter_bytes
                out_d1 = tap_bytes
                out_s0 = pitch_o
                out_s1 = i_t
                out_length = i_t
                out_offset = filter_bytes * o0 + i0 * k.operand_bytes
                if i_t == ic:
                    out_n1 = 1
                    out_length = n_a
            else:
                ones = 0
                n_a = pixels
                pitch_o = align(o_t, 1, k.banks) if c.swap and pool == 0 else o_t
                c_used = pitch_o * pixels
                out_n0 = n_t
                out_n1 = out_w * y_t
                out_d0 = out_image
                out_d1 = out_pixel
                out_s0 = pitch_o * out_n1
                out_s1 = pitch_o
                out_length = o_t
                out_offset = out_image * n0 + out_line * y0 + o0 * k.operand_bytes
                if o_t == oc and pitch_o == oc:
                    out_length = out_s0
                    out_n1 = 1
            n_stream = n_a
            n_stat = o_t
            if c.swap:
                n_stream = o_t
                n_stat = n_a
            groups = (n_stat + k.cols - 1) // k.cols
            if pool == 0 and n_stream * groups > k.acc_depth:
                m.fail(k.ACC_OVERFLOW)
            idx = 0
            if c.opcode == k.MAXPOOL:
                idx = c_used
                c_used = 2 * c_used
            if c_used > k.c_elements:
                m.fail(k.C_OVERFLOW)

        # The part of the result that isn't in those runs: bias gradients, when channels come in tiles.
        tail = 1 if ones and i_t < ic else 0
        tail_offset = filter_bytes * o0 + filter_bytes - k.operand_bytes

        # Open half the C scratchpad and fill the bias and the C operand while the array works. One engine
        # opens every half, so that halves are taken in program order, also from command to command.
        if last:
            opened = 0
            if c.opcode == k.FORWARD and c.bias:
                if o_t > k.bias_elements:
                    m.fail(k.BIAS_OVERFLOW)
                opened = 1
                m.fill(
                    target=k.BIAS, open=1, ready=0 if c.c_mode else 1, shift=shift_bias,
                    dram=c.b_addr + tail_offset,
                    n0=o_t, n1=1, n2=1, d0=filter_bytes, s0=1, length=1, step=1,
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
            elif opened == 0:
                m.fill(target=k.C, open=1, ready=1, step=1)

        # Compute. jump_i: what the odometer adds to the address when level i steps.
        x_step = pitch_x * step
        y_step = pitch_y * step
        s_walk = pitch_x * (c.s - 1)
        if pool:
            vector = k.SUM
            if c.opcode == k.MAXPOOL:
                vector = k.MAX
            if c.opcode == k.MAXPOOL_BACKWARD:
                vector = k.SELECT
            groups = (i_t + k.rows - 1) // k.rows
            lanes_last = i_t - (groups - 1) * k.rows
            taps_walk = pitch_y * (c.r - 1) + s_walk
            groups_walk = taps_walk + i_t - lanes_last
            x_walk = groups_walk + x_step * (out_w - 1)
            y_walk = x_walk + y_step * (y_t - 1)
            m.compute(
                mode=vector, new_a=new_a, new_b=new_b, first=1, last=1,
                n0=n_t, n1=y_t, n2=out_w, n3=groups, n4=c.r, n5=c.s,
                jump0=pitch_n - y_walk, jump1=y_step - x_walk, jump2=x_step - groups_walk,
                jump3=k.rows - taps_walk, jump4=pitch_y - s_walk, jump5=pitch_x,
                k0=1, k1=1, k2=k.rows, kjump2=1, n_k=k.rows,
                n_a=taps, n_b=1, mantissa=c.const_mantissa if c.opcode >= k.AVGPOOL else 1,
            )  # fmt: skip
            m.drain(
                vector=1, n_out=pixels, s_out=pitch_o, n_in=groups, s_in=k.rows, lane_step=1,
                lanes_last=lanes_last, last_inner=1,
                shift=shift, relu=c.relu, c_mode=c.c_mode, shift_c=shift_c, idx=idx,
                dry=c.dry, track=c.track, exponent=exp_out, id=c.out_id,
            )  # fmt: skip
        else:
            if weight:
                c_walk = pitch_c * (i_t - 1)
                m.compute(
                    mode=k.GEMM, new_a=new_a, new_b=new_b, first=first, last=last,
                    swap=c.swap, ones=ones,
                    n0=1, n1=1, n2=1, n3=c.r, n4=c.s, n5=i_t,
                    jump3=pitch_y - s_walk - c_walk, jump4=1 - c_walk, jump5=pitch_c,
                    k0=n_t, k1=grid_t, k2=grid_w,
                    kjump0=pitch_n - pitch_y * (grid_t - 1) - (grid_w - 1),
                    kjump1=pitch_y - (grid_w - 1), kjump2=1,
                    n_k=n_k, n_a=n_a, n_b=o_t, b_stride=b_stride,
                )  # fmt: skip
            else:
                x_walk = x_step * (out_w - 1)
                y_walk = x_walk + y_step * (y_t - 1)
                m.compute(
                    mode=k.GEMM, new_a=new_a, new_b=new_b, first=first, last=last,
                    swap=c.swap,
                    n0=1, n1=1, n2=1, n3=n_t, n4=y_t, n5=out_w,
                    jump3=pitch_n - y_walk, jump4=y_step - x_walk, jump5=x_step,
                    k0=c.r, k1=c.s, k2=i_t,
                    kjump0=pitch_y - s_walk - (i_t - 1), kjump1=1, kjump2=1,
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
                    n_out=groups, s_out=k.cols * across, n_in=n_stream, s_in=along, lane_step=across,
                    lanes_last=n_stat - (groups - 1) * k.cols,
                    shift=shift, shift_ones=shift_ones, ones=ones, swap=c.swap,
                    bias=c.bias if c.opcode == k.FORWARD else 0,
                    relu=c.relu, c_mode=c.c_mode, shift_c=shift_c,
                    dry=c.dry, track=c.track, exponent=exp_out, id=c.out_id,
                )  # fmt: skip

        # Next tile: reduction first, then the output loops in the order asked for.
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
            i0 = ic if pool else i0 + i_t
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
            more = 1 if tail or idx else 0
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
