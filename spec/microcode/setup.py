"""Setup of a command as a whole: checks, directions, exponents and sizes.

Steps of the tile program, compiled like it; :mod:`adagp.spec.microcode.program` says in which language and with which
names. ``t`` holds the values that steps hand to each other, other names are a step's own.
"""

from .norm import norm_dry_exponent, norm_kind

__all__ = ["check", "exponents", "orient", "residue", "sizes"]


def check(c, k, m, t):
    """Check the command's fields against each other; find out its kind."""
    # Each product is less than 2^30 in the hardware, which answers BAD_GEOMETRY otherwise; so it is
    # enough to check the largest of several sizes.
    t.r = c.r
    t.s = c.s
    t.taps = t.r * t.s
    if c.n == 0 or c.c == 0 or c.q == 0 or c.h == 0 or c.w == 0 or c.oh == 0 or c.ow == 0 or c.stride == 0:
        m.fail(k.BAD_GEOMETRY)
    if c.nb == 0 or c.yb == 0 or c.cb == 0 or c.qb == 0:
        m.fail(k.BAD_TILE)
    if k.drops and c.opcode == k.AVGPOOL and c.momentum > 0 and c.nb > 1 and c.yb < c.oh:
        m.fail(k.BAD_TILE)  # a tile's pixels must follow each other
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
    if k.normalises:
        norm_kind(c, k, m, t)
    if k.matmul:
        pitches(c, k, m, t)
    elif t.over_pixels == 0:
        channels = c.c if t.backward else c.q
        if (c.c_pitch > 0 and c.c_pitch < channels) or (c.d_pitch > 0 and c.d_pitch < channels):
            m.fail(k.BAD_GEOMETRY)


def pitches(c, k, m, t):
    """Check C's and D's pitch; in a GEMM without operand D, the filters have the latter."""
    t.filter_pitch = 0
    t.d_pitch = c.d_pitch
    if t.pool == 0 and c.c_mode != k.ADD_MASK:
        t.filter_pitch = c.d_pitch
        t.d_pitch = 0
    channels = c.c if t.backward else c.q
    if t.over_pixels == 0 and ((c.c_pitch > 0 and c.c_pitch < channels) or (t.d_pitch > 0 and t.d_pitch < channels)):
        m.fail(k.BAD_GEOMETRY)


def orient(c, k, m, t):
    """The tensor that is read (``in_*``, ``ic``), the one written (``out_*``, ``oc``), and the windows' steps.

    Virtual grid: the input, dilated by ``dilate`` and padded; windows step over it by ``step``. Only pools dilate. A
    backward GEMM of a strided layer is ``split`` into one of stride 1 for each residue class (:func:`residue`).
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
    t.split = 0
    if t.pool == 0 and c.opcode != k.FORWARD and c.stride > 1:
        t.split = 1
        t.step = 1
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
        t.dilate = c.stride if t.pool else 1
        t.pad_y = c.r - 1 - c.pad_y
        t.pad_x = c.s - 1 - c.pad_x
        t.in_pitch = max(c.y_pitch, c.q)
        t.out_pitch = max(c.x_pitch, c.c)
    t.full_h = t.out_h
    t.full_w = t.out_w
    if t.pool:
        t.oc_tile = t.ic_tile  # one channel loop: the output's
    t.filter_elements = t.taps * c.c + 1
    if k.matmul and t.filter_pitch > 0:
        if t.filter_pitch < t.filter_elements - 1 or c.bias:
            m.fail(k.BAD_GEOMETRY)
        t.filter_elements = t.filter_pitch
    reduction = c.n * c.oh * c.ow if t.over_pixels else t.taps * t.ic
    if k.convolves_channels and t.depthwise:
        t.filter_elements = t.taps + 1
        if t.over_pixels == 0:
            reduction = t.taps
    if (t.pool == 0 or (k.convolves_channels and t.depthwise)) and reduction > k.max_reduction:
        m.fail(k.ACC_OVERFLOW)
    if k.normalises and t.counts and c.n * c.oh * c.ow > k.max_values:
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
    if k.normalises and t.norm and c.dry:
        norm_dry_exponent(c, k, t)
    t.shift = max(k.SHIFT_MIN, min(k.SHIFT_MAX, t.exp_out - exp_acc))
    t.shift_ones = max(k.SHIFT_MIN, min(k.SHIFT_MAX, t.exp_out - c.exp_b))
    t.shift_bias = max(-31, min(31, t.exp_out - c.exp_b))
    exp_c = c.exp_c - c.exp_scale if c.c_mode == k.SUB else c.exp_c
    t.shift_c = max(-31, min(31, t.exp_out - exp_c))
    if k.clamps:  # the bound of results, or of C
        bounded = c.exp_c if c.c_mode == k.MASK else t.exp_out
        t.shift_bound = max(-k.BOUND_SHIFT, min(k.BOUND_SHIFT, bounded - c.bound_exponent))


def sizes(c, k, m, t):
    """Sizes that don't change from tile to tile."""
    t.wide = (t.out_w - 1) * t.step + c.s
    columns = t.wide - t.pad_x
    if t.dilate > 1:
        columns = (columns + t.dilate - 1) // t.dilate
    t.columns = min(t.in_w, columns)
    t.in_pixel = t.in_pitch * k.operand_bytes
    t.out_pixel = t.out_pitch * k.operand_bytes
    t.in_line = t.in_pixel * t.in_w
    t.in_image = t.in_line * t.in_h
    t.out_line = t.out_pixel * t.out_w
    t.out_image = t.out_line * t.out_h
    t.filter_bytes = t.filter_elements * k.operand_bytes
    t.tap_bytes = c.c * k.operand_bytes
    t.bias = c.bias
    t.a_base = c.a_base
    t.b_base = c.b_addr
    t.out_origin = 0
    t.out_d0 = t.out_image
    t.out_d1 = t.out_line
    t.out_d2 = t.out_pixel
    t.zeros = 0
    t.final = 0
    t.ending = 1
    # So that no offset in a tensor is a product too large, which would be noticed in the middle of the command.
    if t.in_image * c.n >= k.TENSOR_BYTES or t.out_image * c.n >= k.TENSOR_BYTES:
        m.fail(k.BAD_GEOMETRY)
    added = max(c.c_pitch, c.d_pitch)
    if k.matmul:
        added = max(c.c_pitch, t.d_pitch)
    if t.over_pixels == 0 and added * k.operand_bytes * t.out_w * t.out_h * c.n >= k.TENSOR_BYTES:
        m.fail(k.BAD_GEOMETRY)
    if (t.pool == 0 or (k.convolves_channels and t.depthwise)) and t.filter_bytes * c.q >= k.TENSOR_BYTES:
        m.fail(k.BAD_GEOMETRY)
    if t.pool == 0:
        t.tap_d1 = t.tap_bytes * c.s  # from a row of taps to the next, and from a tap
        t.tap_d2 = t.tap_bytes
        if t.split:
            split(c, t)
        if t.weight:
            t.out_d0 = t.filter_bytes
            t.out_d1 = t.tap_d1
            t.out_d2 = t.tap_d2


def split(c, t):
    """Steps of a split command: a stride from pixel to pixel of X and from tap to tap, unless there is just one."""
    t.tap_line = t.tap_d1
    t.tap_d1 = t.tap_line * min(c.stride, c.r)
    t.tap_d2 = t.tap_bytes * min(c.stride, c.s)
    if t.weight:
        t.x_line = t.in_line
        t.x_pixel = t.in_pixel
        t.in_line = t.x_line * min(c.stride, c.h)
        t.in_pixel = t.x_pixel * min(c.stride, c.w)
        t.classes_x = min(c.stride, c.s)
        t.last_class = min(c.stride, c.r) + t.classes_x - 2
    else:
        t.x_line = t.out_line
        t.x_pixel = t.out_pixel
        t.out_d1 = t.x_line * min(c.stride, c.h)
        t.out_d2 = t.x_pixel * min(c.stride, c.w)
        t.classes_x = min(c.stride, c.w)
        t.last_class = min(c.stride, c.h) + t.classes_x - 2
    t.class_y = 0
    t.class_x = 0


def residue(c, t):
    """The next residue class of a split command: pixels of X a stride apart, and the taps that meet them.

    X's padded rows (and columns) ``tap_y``, ``tap_y + stride``, ... meet the kernel's rows ``tap_y``, ``tap_y +
    stride``, ... alone. The class's rows begin with ``row`` of X; ``above`` others of the class lie in the padding. So
    class by class a backward pass is one of stride 1 that meets no zeros between pixels. BACKWARD_WEIGHT takes class
    after class of taps, BACKWARD_DATA of pixels; those that no tap meets become 0 (or C).
    """
    round_up = c.stride - 1
    if t.weight:
        tap_y = t.class_y
        tap_x = t.class_x
        above = (c.pad_y + round_up - tap_y) // c.stride
        left = (c.pad_x + round_up - tap_x) // c.stride
        row = above * c.stride + tap_y - c.pad_y
        column = left * c.stride + tap_x - c.pad_x
    else:
        row = t.class_y
        column = t.class_x
        above = (c.pad_y + row) // c.stride
        left = (c.pad_x + column) // c.stride
        tap_y = c.pad_y + row - above * c.stride
        tap_x = c.pad_x + column - left * c.stride
    t.r = (c.r + round_up - tap_y) // c.stride
    t.s = (c.s + round_up - tap_x) // c.stride
    t.taps = t.r * t.s
    t.zeros = 1
    tap_origin = 0
    if t.taps:
        t.zeros = 0
        tap_origin = t.tap_line * tap_y + t.tap_bytes * tap_x
    rows = (c.h + round_up - row) // c.stride
    columns = (c.w + round_up - column) // c.stride
    x_origin = t.x_line * min(row, c.h) + t.x_pixel * min(column, c.w)
    before = 0
    if t.weight:
        t.in_h = rows
        t.in_w = columns
        t.a_base = c.a_base + x_origin
        t.out_origin = tap_origin
        t.pad_y = above
        t.pad_x = left
    else:
        t.out_h = rows
        t.out_w = columns
        t.out_origin = x_origin
        t.row = row
        t.column = column
        t.a_base = c.a_base
        t.b_base = c.b_addr + tap_origin
        t.pad_y = t.r - 1 - above
        t.pad_x = t.s - 1 - left
        if t.pad_x < 0:  # the first column of dY meets no pixel of this class
            t.pad_x = 0
            t.a_base = c.a_base + t.in_pixel
            before = 1
    t.wide = t.out_w - 1 + t.s
    t.columns = min(t.in_w - before, t.wide - t.pad_x)
    number = t.class_y + t.class_x
    t.bias = 0 if number else c.bias
    t.ending = 1 if number == t.last_class else 2
    t.class_x = t.class_x + 1
    if t.class_x == t.classes_x:
        t.class_x = 0
        t.class_y = t.class_y + 1
