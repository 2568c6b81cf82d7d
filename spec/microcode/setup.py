"""Setup of a command as a whole: checks, directions, exponents and sizes.

Steps of the tile program, compiled like it; :mod:`adagp.spec.microcode.program` says in which language and with which
names. ``t`` holds the values that steps hand to each other, other names are a step's own.
"""

__all__ = ["check", "exponents", "orient", "sizes"]


def check(c, k, m, t):
    """Check the command's fields against each other; find out its kind."""
    # Each product is less than 2^30 in the hardware, which answers BAD_GEOMETRY otherwise; so it is
    # enough to check the largest of several sizes.
    t.taps = c.r * c.s
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
    if (c.y_pitch > 0 and c.y_pitch < c.q) or (c.x_pitch > 0 and c.x_pitch < c.c):
        m.fail(k.BAD_GEOMETRY)
    t.pool = 1 if c.opcode >= k.MAXPOOL else 0
    t.weight = 1 if c.opcode == k.BACKWARD_WEIGHT else 0
    t.over_pixels = t.weight  # tiles of images and rows are parts of one sum
    t.backward = 0
    if c.opcode == k.BACKWARD_DATA or c.opcode == k.MAXPOOL_BACKWARD or c.opcode == k.AVGPOOL_BACKWARD:
        t.backward = 1
    if k.convolves_channels:
        t.depthwise = 1 if c.opcode >= k.DEPTHWISE and c.opcode <= k.DEPTHWISE_BACKWARD_WEIGHT else 0
        if c.opcode == k.DEPTHWISE_BACKWARD_DATA:
            t.backward = 1
        if c.opcode == k.DEPTHWISE_BACKWARD_WEIGHT:
            t.over_pixels = 1
    if t.over_pixels == 0:
        channels = c.c if t.backward else c.q
        if (c.c_pitch > 0 and c.c_pitch < channels) or (c.d_pitch > 0 and c.d_pitch < channels):
            m.fail(k.BAD_GEOMETRY)


def orient(c, k, m, t):
    """The tensor that is read (``in_*``, ``ic``), the one written (``out_*``, ``oc``), and the windows' steps.

    Virtual grid: the input, dilated by ``dilate`` and padded; windows step over it by ``step``.
    """
    t.in_h = c.h
    t.in_w = c.w
    t.out_h = c.oh
    t.out_w = c.ow
    t.ic = c.c
    t.oc = c.q
    t.ic_tile = min(c.cb, c.c)
    t.oc_tile = min(c.qb, c.q)
    t.step = c.stride
    t.dilate = 1
    t.pad_y = c.pad_y
    t.pad_x = c.pad_x
    t.in_pitch = max(c.x_pitch, c.c)
    t.out_pitch = max(c.y_pitch, c.q)
    if t.backward:
        t.in_h = c.oh
        t.in_w = c.ow
        t.out_h = c.h
        t.out_w = c.w
        t.ic = c.q
        t.oc = c.c
        t.ic_tile = min(c.qb, c.q)
        t.oc_tile = min(c.cb, c.c)
        t.step = 1
        t.dilate = c.stride
        t.pad_y = c.r - 1 - c.pad_y
        t.pad_x = c.s - 1 - c.pad_x
        t.in_pitch = max(c.y_pitch, c.q)
        t.out_pitch = max(c.x_pitch, c.c)
    if t.pool:
        t.oc_tile = t.ic_tile  # one channel loop: the output's
    t.filter_elements = t.taps * c.c + 1
    reduction = c.n * c.oh * c.ow if t.over_pixels else t.taps * t.ic
    if k.convolves_channels and t.depthwise:
        t.filter_elements = t.taps + 1
        if t.over_pixels == 0:
            reduction = t.taps
    if (t.pool == 0 or (k.convolves_channels and t.depthwise)) and reduction > k.max_reduction:
        m.fail(k.ACC_OVERFLOW)
    if c.opcode == k.FORWARD and c.reorganise:
        if c.q > k.n_filters:
            m.fail(k.BAD_GEOMETRY)
        if max(1, c.oh // 2) * max(1, c.ow // 2) * c.n > k.max_average_taps:
            m.fail(k.ACC_OVERFLOW)
    if c.opcode == k.REORGANISE and (c.c > 4 * k.n_filters or c.n + c.h + c.w + c.oh + c.ow + c.r + c.s > 7):
        m.fail(k.BAD_GEOMETRY)  # more sums than there are, or more than one pixel or tap
    if c.opcode >= k.AVGPOOL and t.taps > k.max_average_taps:
        m.fail(k.ACC_OVERFLOW)
    if t.pool and c.opcode <= k.MAXPOOL_BACKWARD and t.taps > k.max_index:
        m.fail(k.BAD_GEOMETRY)


def exponents(c, k, t):
    """Exponent of the result, and shifts of what is added to it."""
    exp_acc = c.exp_a + c.exp_b
    if t.pool:
        exp_acc = c.exp_a + c.const_exponent if c.opcode >= k.AVGPOOL else c.exp_a
    if k.convolves_channels and t.depthwise:
        exp_acc = c.exp_a + c.exp_b
    t.exp_out = c.exp_out
    if c.dry:
        t.exp_out = exp_acc
        if c.bias and (c.opcode == k.FORWARD or (k.convolves_channels and c.opcode == k.DEPTHWISE)):
            t.exp_out = max(exp_acc, c.exp_b - k.bias_room)
        if c.bias and t.over_pixels:
            t.exp_out = max(exp_acc, c.exp_b - k.bias_gradient_room)
    t.shift = max(k.SHIFT_MIN, min(k.SHIFT_MAX, t.exp_out - exp_acc))
    t.shift_ones = max(k.SHIFT_MIN, min(k.SHIFT_MAX, t.exp_out - c.exp_b))
    t.shift_bias = max(-31, min(31, t.exp_out - c.exp_b))
    exp_c = c.exp_c - c.exp_scale if c.c_mode == k.SUB else c.exp_c
    t.shift_c = max(-31, min(31, t.exp_out - exp_c))


def sizes(c, k, m, t):
    """Sizes that don't change from tile to tile."""
    # BACKWARD_WEIGHT reduces over a grid of dilated output positions with unit stride.
    t.grid_w = (t.out_w - 1) * t.step + 1
    t.wide = t.grid_w - 1 + c.s
    t.columns = min(t.in_w, (t.wide - t.pad_x + t.dilate - 1) // t.dilate)
    t.in_pixel = t.in_pitch * k.operand_bytes
    t.out_pixel = t.out_pitch * k.operand_bytes
    t.in_line = t.in_pixel * t.in_w
    t.in_image = t.in_line * t.in_h
    t.out_line = t.out_pixel * t.out_w
    t.out_image = t.out_line * t.out_h
    t.filter_bytes = t.filter_elements * k.operand_bytes
    t.tap_bytes = c.c * k.operand_bytes
    # So that no offset in a tensor is a product too large, which would be noticed in the middle of the command.
    if t.in_image * c.n >= k.TENSOR_BYTES or t.out_image * c.n >= k.TENSOR_BYTES:
        m.fail(k.BAD_GEOMETRY)
    added = max(c.c_pitch, c.d_pitch)
    if t.over_pixels == 0 and added * k.operand_bytes * t.out_w * t.out_h * c.n >= k.TENSOR_BYTES:
        m.fail(k.BAD_GEOMETRY)
    if (t.pool == 0 or (k.convolves_channels and t.depthwise)) and t.filter_bytes * c.q >= k.TENSOR_BYTES:
        m.fail(k.BAD_GEOMETRY)
