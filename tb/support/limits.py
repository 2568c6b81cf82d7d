"""Commands at the limits of what the hardware counts and sums, and what must become of them.

``CASES``: (configuration, task fields, code of the layer as such, code of the sequencer). The second differs
where a layer is legal but its smallest tile too large for the configuration.
"""

from dataclasses import replace

from adagp.spec.commands import Opcode
from adagp.spec.errors import ErrorCode
from adagp.spec.opcodes import DEPTHWISE, NORM_APPLIES, NORMS
from adagp.spec.presets import preset

__all__ = ["CASES", "CONFIGS"]

TINY = preset("tiny")
CONFIGS = {
    "tiny": TINY,
    "bytes": replace(TINY, name="bytes", operand_width=8, acc_width=32),
    "narrow": replace(TINY, name="narrow", acc_width=41),
    "wide": replace(TINY, name="wide", acc_width=56),
    "norm": replace(TINY, name="norm", batch_norm=True),
    "depthwise": replace(TINY, name="depthwise", depthwise=True),
}
OK, BAD, ACC = ErrorCode.NONE, ErrorCode.BAD_GEOMETRY, ErrorCode.ACC_OVERFLOW
FORWARD, DATA, WEIGHT = Opcode.FORWARD, Opcode.BACKWARD_DATA, Opcode.BACKWARD_WEIGHT
COUNTING = (Opcode.NORM_SUMS, Opcode.NORM_CONSTANTS, Opcode.NORM_BACKWARD)
CHANNELS, CHANNELS_DATA, CHANNELS_WEIGHT = DEPTHWISE


def layer(opcode, r=1, s=1, h=None, w=None, **more):
    """A layer whose output is one pixel of one window, unless told otherwise, in the smallest tiles."""
    ones = dict.fromkeys(("n", "c", "q", "oh", "ow", "stride", "nb", "yb", "cb", "qb", "const_mantissa"), 1)
    return {**ones, "opcode": opcode, "r": r, "s": s, "h": h or r, "w": w or s, **more}


def pools(config, opcodes, *windows):
    return [(config, layer(opcode, r, s), code, rtl) for opcode in opcodes for r, s, code, rtl in windows]


def layers(*cases, config="tiny"):
    return [(config, layer(opcode, **fields), code, code) for opcode, fields, code in cases]


MAXIMA = (Opcode.MAXPOOL, Opcode.MAXPOOL_BACKWARD)
AVERAGES = (Opcode.AVGPOOL, Opcode.AVGPOOL_BACKWARD)
FULL = ErrorCode.A_OVERFLOW
CASES = [
    # The number of a tap, from 1 on, is an operand: up to 127, 32767.
    *pools("bytes", MAXIMA, (1, 127, OK, OK), (2, 64, BAD, BAD), (1, 128, BAD, BAD)),
    *pools("tiny", MAXIMA, (217, 151, OK, FULL), (145, 226, BAD, BAD)),
    # taps * 65535 * (2^(W-1) - 1) < 2^(acc_width-1)
    *pools("bytes", AVERAGES, (6, 43, OK, OK), (7, 37, ACC, ACC)),
    *pools("narrow", AVERAGES, (16, 32, OK, OK), (19, 27, ACC, ACC)),
    *pools("tiny", AVERAGES, (255, 255, OK, FULL)),
    # With the widest accumulator 33556480 products fit.
    *layers(
        (WEIGHT, {"n": 32768, "h": 32, "w": 32, "oh": 32, "ow": 32}, OK),
        (WEIGHT, {"n": 32771, "h": 32, "w": 32, "oh": 32, "ow": 32}, ACC),
        (FORWARD, {"r": 16, "s": 33, "c": 63553}, OK), (FORWARD, {"r": 16, "s": 33, "c": 63554}, ACC), config="wide",
    ),
    # Sums of products: 131080 fit. From 2^30 on they can't even be counted.
    *layers(
        (FORWARD, {"s": 3, "c": 43693}, OK), (FORWARD, {"s": 3, "c": 43694}, ACC),
        (DATA, {"s": 3, "q": 43693}, OK), (DATA, {"s": 3, "q": 43694}, ACC),
        (FORWARD, {"r": 255, "s": 255, "c": 16512}, ACC), (FORWARD, {"r": 255, "s": 255, "c": 16513}, BAD),
        (DATA, {"r": 255, "s": 255, "c": 16513}, BAD), (DATA, {"r": 255, "s": 255, "q": 16513}, BAD),
        (WEIGHT, {"n": 16383, "h": 256, "w": 256, "oh": 256, "ow": 256}, ACC),
        (WEIGHT, {"n": 16384, "h": 256, "w": 256, "oh": 256, "ow": 256}, BAD),
        (WEIGHT, {"n": 16384, "h": 65535, "oh": 65535}, ACC), (WEIGHT, {"n": 16385, "h": 65535, "oh": 65535}, BAD),
    ),
    # Tensors have less than 2^30 bytes: X, Y, filters.
    *layers(
        (FORWARD, {"h": 16384, "w": 32767}, OK), (FORWARD, {"h": 16384, "w": 32768}, BAD),
        (FORWARD, {"n": 32767, "h": 128, "w": 128}, OK), (FORWARD, {"n": 32768, "h": 128, "w": 128}, BAD),
        (FORWARD, {"n": 65535, "h": 65535, "w": 65535}, BAD),
        (FORWARD, {"h": 128, "w": 128, "oh": 128, "ow": 128, "q": 32767}, OK),
        (FORWARD, {"h": 128, "w": 128, "oh": 128, "ow": 128, "q": 32768}, BAD),
        (DATA, {"h": 128, "w": 128, "oh": 128, "ow": 128, "q": 32767}, OK),
        (DATA, {"h": 128, "w": 128, "oh": 128, "ow": 128, "q": 32768}, BAD),
        (FORWARD, {"c": 16383, "q": 32767}, OK), (FORWARD, {"c": 16383, "q": 32768}, BAD),
        (WEIGHT, {"c": 16383, "q": 32767}, OK), (WEIGHT, {"c": 16383, "q": 32768}, BAD),
        (Opcode.AVGPOOL, {"h": 16384, "w": 32767}, OK), (Opcode.AVGPOOL, {"h": 16384, "w": 32768}, BAD),
        (Opcode.MAXPOOL_BACKWARD, {"n": 32768, "h": 128, "w": 128}, BAD),
    ),
    *layers((FORWARD, {"h": 32768, "w": 32767}, OK), (FORWARD, {"h": 32768, "w": 32768}, BAD), config="bytes"),
    # The first of several reasons counts.
    *layers(
        (FORWARD, {"r": 0, "nb": 0, "h": 1}, ErrorCode.BAD_TILE), (FORWARD, {"r": 0, "h": 1}, BAD),
        (FORWARD, {"n": 0, "nb": 0}, BAD), (FORWARD, {"pad_x": 1, "qb": 0}, ErrorCode.BAD_TILE),
        (Opcode.MAXPOOL, {"r": 255, "s": 255, "q": 2}, BAD),
    ),
    # One filter for each channel: as many results, a reduction of taps or pixels, filters of one channel.
    *layers(
        *((opcode, fields, BAD) for opcode in DEPTHWISE for fields in ({"q": 2}, {"c": 2}, {"stride": 0})),
        *((opcode, {"r": 255, "s": 255, "c": c, "q": c}, BAD) for opcode in DEPTHWISE for c in (8257, 16513)),
        (CHANNELS, {"qb": 0, "q": 2}, ErrorCode.BAD_TILE),
        (CHANNELS_WEIGHT, {"n": 2, "h": 32770, "w": 2, "oh": 32770, "ow": 2}, OK),
        (CHANNELS_WEIGHT, {"n": 2, "h": 32771, "w": 2, "oh": 32771, "ow": 2}, ACC),
        (CHANNELS_WEIGHT, {"n": 16384, "h": 256, "w": 256, "oh": 256, "ow": 256}, BAD),
        (CHANNELS, {"c": 3, "q": 3, "c_pitch": 2}, BAD), (CHANNELS_DATA, {"c": 3, "q": 3, "d_pitch": 2}, BAD),
        (CHANNELS_WEIGHT, {"c": 3, "q": 3, "c_pitch": 2}, OK), (CHANNELS_WEIGHT, {"c": 3, "q": 3, "y_pitch": 2}, BAD),
        config="depthwise",
    ),
    # Batch norm: one value of Y for each of X, and sums of as many values as the accumulators hold.
    *layers(
        *((opcode, fields, BAD) for opcode in NORMS for fields in (
            {"q": 2}, {"s": 2, "w": 2}, {"h": 2}, {"h": 3, "w": 3, "stride": 2, "oh": 2, "ow": 2},
            {"n": 8, "c": 65535, "q": 65535, "h": 129, "oh": 129, "w": 8, "ow": 8}, {"pad_x": 1},
            {"x_pitch": 1, "c": 2},
        )),
        *((opcode, {"n": 2, "h": 32770, "oh": 32770, "w": 2, "ow": 2}, OK) for opcode in NORMS),
        *((opcode, {"n": 2, "h": 32771, "oh": 32771, "w": 2, "ow": 2}, ACC) for opcode in COUNTING),
        *((opcode, {"n": 65535, "h": 32771, "oh": 32771}, BAD) for opcode in NORMS),
        *((opcode, {"n": 2, "h": 32771, "oh": 32771, "w": 2, "ow": 2}, OK) for opcode in NORM_APPLIES),
        *((opcode, {"c": 3, "q": 3, "c_pitch": 2}, BAD) for opcode in NORM_APPLIES),
        (NORMS[0], {"c": 3, "q": 3, "c_pitch": 2}, OK), (NORMS[0], {"c": 3, "q": 3, "y_pitch": 2}, BAD),
        config="norm",
    ),
    *(("depthwise", layer(opcode, 255, 255, c=8256, q=8256), OK, FULL) for opcode in (CHANNELS, CHANNELS_WEIGHT)),
]  # fmt: skip
