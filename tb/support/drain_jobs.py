"""Random DRAIN descriptors for benches, and what they mean, in plain integers."""

from fractions import Fraction

from adagp.spec.commands import CMode
from adagp.spec.microcode.descriptors import DRAIN
from adagp.spec.numerics import unpredicted
from clamped_elements import ElementEnd

__all__ = ["DrainModel"]


def requantise(v, shift, width):
    limit = 2 ** (width - 1) - 1
    return max(-limit, min(limit, round(Fraction(v) / Fraction(2) ** shift)))


class DrainModel:
    """Contents of both halves of everything, and what the engine should make of a descriptor."""

    def __init__(self, config, rng):
        self.config = config
        self.rng = rng
        self.acc = [[[self.sum() for _ in range(config.cols)] for _ in range(config.acc_depth)] for _ in range(2)]
        self.c = [[self.operand() for _ in range(config.c_elements)] for _ in range(2)]
        self.bias = [[self.sum() for _ in range(config.bias_elements)] for _ in range(2)]
        self.vectors = []
        self.sums = [0] * (4 * config.n_filters)
        self.results = []
        self.saturations = 0
        self.acc_half = 0
        self.written = 0

    def sum(self):
        width = self.rng.randrange(2, self.config.acc_width)
        return self.rng.choice((self.rng.randint(-(1 << width - 1), (1 << width - 1) - 1), 3 << (width // 2), 0))

    def operand(self):
        limit = (1 << (self.config.operand_width - 1)) - 1
        return self.rng.choice((self.rng.randint(-limit, limit), 0, limit, -limit, 1, -1))

    def descriptor(self):
        """Shapes and strides as the tile program makes them, everything else at random."""
        rng, config = self.rng, self.config
        vector = rng.random() < 0.4
        swap = 0 if vector else rng.randrange(2)
        lanes = config.rows if vector else config.cols
        n_stat, n_stream = rng.randint(1, 3 * lanes), rng.randint(1, 12)
        reorganise = config.predicts and rng.random() < 0.6
        groups = -(-n_stat // lanes)
        d = dict.fromkeys((bits.name for bits in DRAIN), 0)
        d.update(
            vector=int(vector), half=rng.randrange(2), lane_step=1, lanes_last=n_stat - (groups - 1) * lanes, swap=swap,
            shift=rng.choice((rng.randint(-16, 63), rng.randint(0, config.acc_width - 8), 0)),
            relu=rng.randrange(2), c_mode=int(rng.choice(list(CMode))), shift_c=rng.randint(-31, 31),
            dry=int(rng.random() < 0.2), track=int(rng.random() < 0.8),
            id=rng.randrange(self.config.n_tensors), exponent=rng.randint(-256, 254),
        )  # fmt: skip
        if config.clamps and d["c_mode"] != CMode.ADD_MASK:
            self._clamp(d)
        if reorganise:
            self._reorganise(d, n_stat if swap else n_stream, n_stream if swap else n_stat)
        if vector and reorganise:
            d.update(n_out=rng.randint(1, 20), s_out=1, n_in=1, lanes_last=1, last_inner=1)
        elif vector:
            pitch = n_stat + rng.randrange(5)
            d.update(n_out=n_stream, s_out=pitch, n_in=groups, s_in=lanes, last_inner=1)
            d.update(idx=rng.choice((0, pitch * n_stream + rng.randrange(9))))
            if config.normalises and rng.random() < 0.6:
                d.update(scaled=1, idx=0)
        else:
            pitch = (n_stream if swap else n_stat) + rng.randrange(5)
            if swap:
                pitch += (1 - pitch) % config.banks
            along, across = (1, pitch) if swap else (pitch, 1)
            d.update(
                n_out=groups, s_out=lanes * across, n_in=n_stream, s_in=along, lane_step=across,
                ones=rng.randrange(2), shift_ones=rng.randint(-16, 63), bias=rng.randrange(2),
                zeros=int(not reorganise and rng.random() < 0.4),
            )  # fmt: skip
        return d

    def _clamp(self, d):
        """A bound around the largest operand and far from it, or none, and perhaps a slope."""
        rng, width = self.rng, self.config.operand_width
        d.update(
            bound=rng.choice((0, rng.getrandbits(16), 1 << 15 | rng.getrandbits(15))),
            shift_bound=rng.choice((rng.randint(16 - width, 18 - width), rng.randint(-40, 40), 16)),
            slope=rng.choice((0, 0, rng.getrandbits(16), 1 << 15, 65535)),
        )  # fmt: skip

    def _reorganise(self, d, pixels, filters):
        """Let a descriptor sum up, or take sums: pixels of one or several images, whole rows of each."""
        rng = self.rng
        width = rng.choice([n for n in range(1, pixels + 1) if pixels % n == 0])
        rows = rng.choice([n for n in range(1, pixels // width + 1) if pixels // width % n == 0])
        height = rows + rng.randrange(4)
        d.update(
            reorganise=1, fresh=rng.randrange(2), at=4 * rng.randint(0, self.config.n_filters - filters),
            width=width, height=height, rows=rows, row=rng.randint(0, height - rows), mantissa=rng.getrandbits(16),
        )  # fmt: skip
        if d["vector"]:
            d["at"] = rng.randrange(3 * self.config.n_filters)

    def _sum_up(self, d, results):
        """Add results [(filter, pixel, value)] to their windows' sums."""
        filters = {f for f, _, _ in results}
        for f in filters if d["fresh"] else ():
            self.sums[d["at"] + 4 * f : d["at"] + 4 * f + 4] = [0] * 4
        for f, pixel, value in results:
            y, x = pixel // d["width"] % d["rows"] + d["row"], pixel % d["width"]
            for window in range(4):
                places = (y, d["height"], window // 2), (x, d["width"], window % 2)
                if all(extent == 1 or at // (extent // 2) == half for at, extent, half in places):
                    self.sums[d["at"] + 4 * f + window] += value

    def run(self, d):
        """Apply a descriptor to the contents; appends to ``vectors`` and ``results``."""
        config = self.config
        lanes = config.rows if d["vector"] else config.cols
        before = list(self.c[d["half"]])
        tops, word, reorganised = [], 0, []
        end = ElementEnd(config.operand_width, d["c_mode"], d["relu"], d["bound"], d["shift_bound"], d["slope"])
        for o in range(d["n_out"]):
            for i in range(d["n_in"]):
                tail = i == d["n_in"] - 1 if d["last_inner"] else o == d["n_out"] - 1
                xs = [self.sum() for _ in range(lanes)] if d["vector"] else self.acc[self.acc_half][word]
                if d["zeros"]:
                    xs = [0] * lanes
                if d["vector"] and d["reorganise"]:
                    xs = [self.sums[d["at"] + word] * d["mantissa"]]
                word += 1
                shifts = [self.rng.randint(-16, 63) for _ in range(lanes)]
                plain = int(d["scaled"] and self.rng.random() < 0.3)
                if d["vector"] and not d["reorganise"]:
                    own = {"shift": shifts, "plain": plain if d["scaled"] else self.rng.randrange(2)}
                    self.vectors.append({"sums": xs, **own} if config.normalises else xs)
                    indices = [self.rng.randrange(100) for _ in range(lanes)]
                    if d["idx"]:
                        self.vectors.append({"sums": indices, **own} if config.normalises else indices)
                for lane in range(d["lanes_last"] if tail else lanes):
                    address = o * d["s_out"] + i * d["s_in"] + lane * d["lane_step"]
                    is_ones = d["ones"] and (
                        o == d["n_out"] - 1 and lane == d["lanes_last"] - 1 if d["swap"] else i == d["n_in"] - 1
                    )
                    bias = self.bias[d["half"]][i if d["swap"] else o * config.cols + lane] if d["bias"] else 0
                    c = before[address]
                    shift = shifts[lane] if d["scaled"] else d["shift_ones"] if is_ones else d["shift"]
                    masked = {CMode.MASK: c <= 0, CMode.ADD_MASK: c == unpredicted(config.operand_width)}
                    x = self.added_up(d, xs[lane], bias, c, shift, plain)
                    out, bits, saturated = end.result(x, c, masked.get(d["c_mode"], False) and not plain)
                    tops += [] if bits is None or plain else [bits + d["exponent"]]
                    self.c[d["half"]][address] = out
                    place = (i, o * lanes + lane) if d["swap"] else (o * lanes + lane, i)
                    reorganised.append((*place, self.c[d["half"]][address]))
                    self.saturations += saturated and not d["dry"] and not plain
                    self.written += 1
                    if d["idx"]:
                        self.c[d["half"]][address + d["idx"]] = indices[lane]
                        self.written += 1
        if d["reorganise"] and not d["vector"]:
            self._sum_up(d, reorganised)
        if not d["vector"] and not d["zeros"]:
            self.acc_half = 1 - self.acc_half
        if d["track"]:
            self.results.append((d["id"], int(bool(tops)), max(tops, default=None)))

    def added_up(self, d, x, bias, c, shift, plain=0):
        x = requantise(x, shift, self.config.acc_width) + bias
        if plain:  # nothing is added to it
            return x
        if d["c_mode"] in (CMode.ADD, CMode.ADD_MASK):
            x += requantise(c, d["shift_c"], self.config.acc_width)
        if d["c_mode"] == CMode.SUB and self.config.predicts:
            x -= requantise(c, d["shift_c"], self.config.acc_width)
        return x
