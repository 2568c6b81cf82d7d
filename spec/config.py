"""Generator configuration: what one accelerator is, checked when it is constructed."""

import hashlib
import json
import math
import re
from dataclasses import asdict, dataclass, fields, replace

from .numerics import CONSTANT_MAX, HIDDEN, operand_max

__all__ = ["FAMILIES", "VARIANTS", "VERSION", "Config", "ConfigError", "DramPart"]

VERSION = 0x0001_0000
"""Version of the hardware/software contract (major in the upper half word)."""


FAMILIES = ("ecp5", "ice40", "xilinx")
"""Of FPGAs, whose own blocks Verilog may be generated with."""
VARIANTS = ("baseline", "low", "efficient", "max")
"""Designs (paper, section 4): no prediction; the predictor's weights in DRAM; on chip; with an array of their own."""

PREDICTOR_PORT = 64
"""Bits at most of the way to memory that the predictor's own array has: it has little to move, and fewer banks then."""


class ConfigError(ValueError):
    """A configuration that can't be built; the message names field, value and inequality."""


def _pow2(value):
    return value > 0 and value & (value - 1) == 0


def _require(ok, field, value, rule):
    if not ok:
        raise ConfigError(f"{field} = {value!r} must satisfy {rule}")


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def _require_types(instance):
    """Every field holds what it is declared as, ``name`` what a file may be called."""
    for field in fields(instance):
        value = getattr(instance, field.name)
        if field.type in (int, float):
            number = isinstance(value, (int, field.type)) and not isinstance(value, bool) and math.isfinite(value)
            rule = "an integer" if field.type is int else "a finite number"
            _require(number, field.name, value, f"{field.name} is {rule}")
        else:
            assert isinstance(field.type, type)  # no annotation here is a string
            _require(isinstance(value, field.type), field.name, value, f"{field.name} is a {field.type.__name__}")
    _require(_NAME.fullmatch(instance.name), "name", instance.name, "name consists of 1..64 letters, digits, . _ -")


@dataclass(frozen=True)
class DramPart:
    """Timing and bandwidth of the memory behind the AXI port, as the DRAM model sees it.

    ``bandwidth_bytes`` is per second, times are in nanoseconds; ``capacity_bytes`` bounds the
    memory planner; ``burst_bytes`` is the smallest piece the part moves; ``max_outstanding`` is the
    number of read (and of write) bursts the controller accepts before it holds off the port.

    Raises :class:`ConfigError` naming the field, its value and the inequality.
    """

    name: str
    bandwidth_bytes: int
    capacity_bytes: int
    burst_bytes: int
    latency_ns: float
    refresh_interval_ns: float
    refresh_ns: float
    turnaround_ns: float
    max_outstanding: int

    def __post_init__(self):
        _require_types(self)
        for field, most in (("bandwidth_bytes", 1 << 62), ("max_outstanding", 1024)):
            value = getattr(self, field)
            _require(1 <= value <= most, field, value, f"1 <= {field} <= {most}")
        size = self.capacity_bytes
        _require(0 < size <= 1 << 32 and size % 4096 == 0, "capacity_bytes", size, "a multiple of 4096 in 4096..2^32")
        burst = self.burst_bytes
        _require(_pow2(burst) and burst <= 4096, "burst_bytes", burst, "burst_bytes is a power of two up to 4096")
        for field in ("latency_ns", "refresh_interval_ns", "refresh_ns", "turnaround_ns"):
            _require(0 <= getattr(self, field) <= 1e6, field, getattr(self, field), f"0 <= {field} <= 1e6")
        _require(
            self.refresh_ns == 0 or self.refresh_ns < self.refresh_interval_ns, "refresh_ns", self.refresh_ns,
            f"refresh_ns < refresh_interval_ns({self.refresh_interval_ns})",
        )  # fmt: skip


@dataclass(frozen=True)
class Config:
    """One accelerator: PE array, scratchpads, port, clock.

    Widths are in bits, depths in words: an A, B or C scratchpad word holds ``banks`` operands, an
    accumulator word holds ``cols`` psums; each scratchpad and the accumulator has two halves of the
    given depth (double buffering).

    Variants other than ``baseline`` can predict gradients of layers with up to ``n_filters`` filters of up to
    ``n_predicted`` weights, and with ``random_signs`` change their signs at random, to compare with. Only ``max`` has
    an array for it, of ``predictor_rows`` by ``predictor_cols``; where these are 0 the core is that array itself.
    ``predictor_depth`` commands may wait for it before they hold up the others.

    Raises :class:`ConfigError` naming the field, its value and the inequality.
    """

    name: str
    rows: int
    cols: int
    port_width: int
    a_depth: int
    b_depth: int
    c_depth: int
    acc_depth: int
    n_tensors: int
    n_hyper: int
    update_lanes: int
    clock_hz: int
    dram: DramPart
    operand_width: int = 16
    acc_width: int = 48
    max_burst_beats: int = 64
    n_filters: int = 512
    n_predicted: int = 4608
    predictor_rows: int = 4
    predictor_cols: int = 4
    predictor_depth: int = 2
    random_signs: bool = False
    variant: str = "baseline"

    def __post_init__(self):
        _require_types(self)
        _require(2 <= self.rows <= 64, "rows", self.rows, "2 <= rows <= 64")
        _require(2 <= self.cols <= 64, "cols", self.cols, "2 <= cols <= 64")
        _require(self.port_width in (64, 128, 256), "port_width", self.port_width, "port_width in {64, 128, 256}")
        _require(self.operand_width in (8, 16), "operand_width", self.operand_width, "operand_width in {8, 16}")
        for field in ("a_depth", "b_depth", "c_depth", "acc_depth", "n_tensors", "n_hyper", "update_lanes"):
            _require(_pow2(getattr(self, field)), field, getattr(self, field), f"{field} is a power of two")
        for field in ("a_depth", "b_depth", "c_depth"):
            elements = getattr(self, field) * self.banks
            _require(elements <= 65536, field, getattr(self, field), f"{field} * banks({self.banks}) <= 65536 elements")
        _require(16 <= self.acc_depth <= 65536, "acc_depth", self.acc_depth, "16 <= acc_depth <= 65536")
        _require(self.c_depth * self.banks >= self.cols * 4, "c_depth", self.c_depth, "c_depth * banks >= 4 * cols")
        _require(16 <= self.n_tensors <= 256, "n_tensors", self.n_tensors, "16 <= n_tensors <= 256")
        _require(4 <= self.n_hyper <= 256, "n_hyper", self.n_hyper, "4 <= n_hyper <= 256")
        momenta = self.port_width // 32
        _require(
            self.update_lanes <= momenta, "update_lanes", self.update_lanes,
            f"update_lanes <= port_width/32({momenta}), the momenta in a beat",
        )  # fmt: skip
        _require(32 <= self.acc_width <= 48, "acc_width", self.acc_width, "32 <= acc_width <= 48")
        _require(
            self.max_reduction >= 1024, "acc_width", self.acc_width,
            "2^(acc_width-1) > 1024 * (2^(operand_width-1) - 1)^2",
        )  # fmt: skip
        bursts = self.max_burst_beats
        _require(_pow2(bursts) and 1 <= bursts <= 256, "max_burst_beats", bursts, "a power of two in 1..256")
        _require(
            bursts * self.port_width // 8 <= 4096, "max_burst_beats", bursts,
            "max_burst_beats * port_width/8 <= 4096 (AXI bursts stay in a 4 KiB page)",
        )  # fmt: skip
        _require(1 <= self.clock_hz <= 10**10, "clock_hz", self.clock_hz, "1 <= clock_hz <= 10^10")
        _require(1 <= self.n_filters <= 16383, "n_filters", self.n_filters, "1 <= n_filters <= 16383")
        _require(1 <= self.n_predicted <= 65535, "n_predicted", self.n_predicted, "1 <= n_predicted <= 65535")
        depth = self.predictor_depth
        _require(_pow2(depth) and 2 <= depth <= 64, "predictor_depth", depth, "a power of two in 2..64")
        _require(self.variant in VARIANTS, "variant", self.variant, f"variant in {{{', '.join(VARIANTS)}}}")
        if self.predicts and self.predictor_rows:
            _require(self.operand_width == 16, "operand_width", self.operand_width, "16 where gradients are predicted")
            try:
                assert self.predictor_core
            except ConfigError as error:
                raise ConfigError(f"the predictor's array: {error}") from None

    @property
    def predicts(self) -> bool:
        """Whether gradients can be predicted."""
        return self.variant != "baseline"

    @property
    def flips_signs(self) -> bool:
        """Whether there is hardware for random signs of gradients."""
        return self.predicts and self.random_signs

    @property
    def predictor_core(self) -> "Config":
        """What the predictor's commands must fit: the array of its own that ``max`` has for them."""
        core = replace(
            self, rows=self.predictor_rows, cols=self.predictor_cols, predictor_rows=0, predictor_cols=0,
            port_width=min(self.port_width, PREDICTOR_PORT), update_lanes=1,
        )  # fmt: skip
        # In elements, a quarter of each operand, and half of the results, which are what is large; the accumulator has
        # as many words as the main core's, but narrower ones.
        shares = {"a_depth": 4, "b_depth": 4, "c_depth": 2}
        depths = {name: getattr(self, name) * self.banks // share // core.banks for name, share in shares.items()}
        return replace(core, **depths)

    @property
    def n_cores(self) -> int:
        """Arrays with sequencers of their own."""
        return 2 if self.variant == "max" else 1

    @property
    def reorganises(self) -> bool:
        """Whether the core sums results up for the predictor: the one whose array isn't the predictor's does."""
        return self.predicts and self.predictor_rows > 0

    @property
    def pools(self) -> bool:
        """Whether the core has commands that go through the pool unit: an array that is only the predictor's hasn't."""
        return self.predictor_rows > 0

    @property
    def predictor_bytes(self) -> int:
        """Of the predictor's larger layer and its biases, operand copies: what the predictor memory holds, in pages."""
        return -(-self.n_predicted * (HIDDEN + 1) * self.operand_bytes // 4096) * 4096 + 4096

    @property
    def predictor_window(self) -> int:
        """What the predictor memory's address is a multiple of: the power of two that holds it."""
        return 1 << (self.predictor_bytes - 1).bit_length()

    @property
    def predictor_on_chip(self) -> bool:
        """Whether there is a predictor memory."""
        return self.variant in ("efficient", "max")

    @property
    def banks(self) -> int:
        """Banks of a scratchpad: the power of two that serves array side, output side and port."""
        widest = max(self.rows, self.cols, self.port_width // self.operand_width)
        return 1 << (widest - 1).bit_length()

    @property
    def operand_bytes(self) -> int:
        return self.operand_width // 8

    @property
    def beat_bytes(self) -> int:
        return self.port_width // 8

    @property
    def beat_elements(self) -> int:
        """Operands in one beat of the memory port."""
        return self.port_width // self.operand_width

    @property
    def psum_width(self) -> int:
        """Width of a psum in a column: a sum of ``rows`` exact products."""
        return 2 * self.operand_width + (self.rows - 1).bit_length()

    @property
    def max_reduction(self) -> int:
        """Longest sum that can't overflow an accumulator: n * operand_max^2 < 2^(acc_width-1)."""
        return ((1 << (self.acc_width - 1)) - 1) // operand_max(self.operand_width) ** 2

    @property
    def max_average_taps(self) -> int:
        """Most taps of an AVGPOOL's window: constant * n * operand_max < 2^(acc_width-1) for every constant."""
        return ((1 << (self.acc_width - 1)) - 1) // (CONSTANT_MAX * operand_max(self.operand_width))

    @property
    def max_index(self) -> int:
        """Most taps of a MAXPOOL's window: an operand holds the number of each, counted from 1."""
        return operand_max(self.operand_width)

    @property
    def bias_elements(self) -> int:
        """Biases a tile may have: the bias memory holds 64 words of ``cols`` per half, that of an array which is only
        the predictor's, and therefore narrow, 128."""
        return (64 if self.pools else 128) * self.cols

    @property
    def a_elements(self) -> int:
        return self.a_depth * self.banks

    @property
    def b_elements(self) -> int:
        return self.b_depth * self.banks

    @property
    def c_elements(self) -> int:
        return self.c_depth * self.banks

    @property
    def n_pes(self) -> int:
        return self.rows * self.cols

    def to_dict(self) -> dict:
        """Plain data, as written to ``top.json``."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict) -> "Config":
        """Inverse of :meth:`to_dict`; raises ConfigError for unknown or missing fields."""
        known = {f.name for f in fields(cls)}
        unknown = sorted(set(data) - known)
        if unknown:
            raise ConfigError(f"unknown field {unknown[0]!r}; known fields: {', '.join(sorted(known))}")
        try:
            return cls(**{**data, "dram": DramPart(**data["dram"])})
        except (KeyError, TypeError) as error:
            raise ConfigError(f"incomplete configuration: {error}") from error

    @property
    def config_hash(self) -> int:
        """32-bit digest of everything that decides whether a program fits this accelerator."""
        data = {k: v for k, v in self.to_dict().items() if k not in ("name", "clock_hz", "dram", "variant")}
        text = json.dumps([VERSION, data], sort_keys=True)
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")
