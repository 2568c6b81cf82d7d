"""Generator configuration: what one accelerator is, checked when it is constructed."""

import hashlib
import json
from dataclasses import asdict, dataclass, fields, replace

from .dram_part import DramPart
from .limits import Limits
from .numerics import HIDDEN
from .validation import ConfigError, is_power_of_two, require, require_types

__all__ = ["FAMILIES", "SLICES", "SWITCHES", "VARIANTS", "VERSION", "Config"]

VERSION = 0x0002_0000
"""Version of the hardware/software contract (major in the upper half word)."""

SWITCHES = ("depthwise", "batch_norm", "clamps", "matmul", "dropout")
"""Fields that build hardware for further operators."""
YOUNGER = {"matmul": False, "dropout": False, "epilogue_lanes": 0, "update_cycles": 1, "streamed_predictions": False}
"""Fields that are younger than the hash: with these values a configuration keeps the hash that it had before."""
FAMILIES = ("ecp5", "ice40", "xilinx")
"""FPGA families whose own blocks generated Verilog may contain."""

VARIANTS = ("baseline", "low", "efficient", "max")
"""Designs (paper, section 4): no prediction; the predictor's weights in DRAM; on chip; with an array of their own."""

UPDATE_CYCLES = (1, 3)
"""Cycles in which an SGD lane can take a weight."""
SLICES = 2
"""Slices of predictions on chip: one is read while the other is written."""
PREDICTOR_PORT = 64
"""Most bits of the memory port of the predictor's own array: it moves little, and then needs fewer banks."""


@dataclass(frozen=True)
class Config(Limits):
    """One accelerator: PE array, scratchpads, port, clock.

    Widths are in bits, depths in words. A word of the A, B or C scratchpad holds ``banks`` operands, a word of the
    accumulator holds ``cols`` psums. Each scratchpad and the accumulator have two halves of the given depth.

    Variants other than ``baseline`` can predict gradients of layers with up to ``n_filters`` filters of up to
    ``n_predicted`` weights. With ``random_signs`` they can also change the signs at random, for comparison. Only
    ``max`` has an array of its own for this, of ``predictor_rows`` by ``predictor_cols``; a core where these are 0 is
    that array. ``predictor_depth`` commands may wait for it before they hold up the others. With
    ``streamed_predictions`` it also has room on chip for predictions on their way from that array to the update.

    The epilogue takes ``epilogue_lanes`` results a cycle; with 0 it takes a whole vector, which has as many as there
    are rows or columns, whichever are more. Each of the ``update_lanes`` of SGD takes a weight in ``update_cycles``.

    With ``output_stationary`` the PEs keep sums; without it they keep an operand of either side. With
    ``registered_products`` such a PE has one more register before its adder, for devices with multipliers far from it.
    Programs and results are the same.

    SWITCHES are for depthwise convolutions, batch norm (of 16-bit operands, with 48-bit accumulators), bounds and
    slopes of ReLUs, products of two activations, and dropout.

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
    epilogue_lanes: int = 0
    update_cycles: int = 1
    random_signs: bool = False
    streamed_predictions: bool = False
    depthwise: bool = False
    batch_norm: bool = False
    clamps: bool = False
    matmul: bool = False
    dropout: bool = False
    output_stationary: bool = False
    registered_products: bool = False
    variant: str = "baseline"

    def __post_init__(self):
        require_types(self)
        require(2 <= self.rows <= 64, "rows", self.rows, "2 <= rows <= 64")
        require(2 <= self.cols <= 64, "cols", self.cols, "2 <= cols <= 64")
        require(self.port_width in (64, 128, 256), "port_width", self.port_width, "port_width in {64, 128, 256}")
        require(self.operand_width in (8, 16), "operand_width", self.operand_width, "operand_width in {8, 16}")
        for field in ("a_depth", "b_depth", "c_depth", "acc_depth", "n_tensors", "n_hyper", "update_lanes"):
            require(is_power_of_two(getattr(self, field)), field, getattr(self, field), f"{field} is a power of two")
        for field in ("a_depth", "b_depth", "c_depth"):
            elements = getattr(self, field) * self.banks
            require(elements <= 65536, field, getattr(self, field), f"{field} * banks({self.banks}) <= 65536 elements")
        require(16 <= self.acc_depth <= 65536, "acc_depth", self.acc_depth, "16 <= acc_depth <= 65536")
        require(self.c_depth * self.banks >= self.cols * 4, "c_depth", self.c_depth, "c_depth * banks >= 4 * cols")
        require(16 <= self.n_tensors <= 4096, "n_tensors", self.n_tensors, "16 <= n_tensors <= 4096")
        require(4 <= self.n_hyper <= 256, "n_hyper", self.n_hyper, "4 <= n_hyper <= 256")
        momenta = self.port_width // 32
        require(
            self.update_lanes <= momenta, "update_lanes", self.update_lanes,
            f"update_lanes <= port_width/32({momenta}), the momenta in a beat",
        )  # fmt: skip
        require(32 <= self.acc_width <= 56, "acc_width", self.acc_width, "32 <= acc_width <= 56")
        require(
            self.max_reduction >= 1024, "acc_width", self.acc_width,
            "2^(acc_width-1) > 1024 * (2^(operand_width-1) - 1)^2",
        )  # fmt: skip
        bursts = self.max_burst_beats
        require(is_power_of_two(bursts) and 1 <= bursts <= 256, "max_burst_beats", bursts, "a power of two in 1..256")
        require(
            bursts * self.port_width // 8 <= 4096, "max_burst_beats", bursts,
            "max_burst_beats * port_width/8 <= 4096 (AXI bursts stay in a 4 KiB page)",
        )  # fmt: skip
        require(1 <= self.clock_hz <= 10**10, "clock_hz", self.clock_hz, "1 <= clock_hz <= 10^10")
        require(1 <= self.n_filters <= 16383, "n_filters", self.n_filters, "1 <= n_filters <= 16383")
        require(1 <= self.n_predicted <= 65535, "n_predicted", self.n_predicted, "1 <= n_predicted <= 65535")
        depth = self.predictor_depth
        require(is_power_of_two(depth) and 2 <= depth <= 64, "predictor_depth", depth, "a power of two in 2..64")
        wide = not self.batch_norm or (self.operand_width == 16 and self.acc_width >= 48)
        require(wide, "batch_norm", True, "False unless operand_width is 16 and acc_width >= 48")
        lanes = self.result_lanes
        require(
            0 <= self.epilogue_lanes <= lanes, "epilogue_lanes", self.epilogue_lanes,
            f"0 <= epilogue_lanes <= max(rows, cols)({lanes})",
        )  # fmt: skip
        cycles = self.update_cycles
        require(cycles in UPDATE_CYCLES, "update_cycles", cycles, f"update_cycles in {set(UPDATE_CYCLES)}")
        require(self.variant in VARIANTS, "variant", self.variant, f"variant in {{{', '.join(VARIANTS)}}}")
        if self.predicts and self.predictor_rows:
            require(self.operand_width == 16, "operand_width", self.operand_width, "16 where gradients are predicted")
            try:
                assert self.predictor_core
            except ConfigError as error:
                raise ConfigError(f"the predictor's array: {error}") from None

    @property
    def predicts(self) -> bool:
        """True if gradients can be predicted."""
        return self.variant != "baseline"

    @property
    def flips_signs(self) -> bool:
        """True if there is hardware for random signs of gradients."""
        return self.predicts and self.random_signs

    @property
    def streams(self) -> bool:
        """True if predictions can go to the update without passing through memory."""
        return self.streamed_predictions and self.variant == "max"

    @property
    def predictor_core(self) -> "Config":
        """The array of the predictor's own in ``max``, whose limits the predictor's commands must respect."""
        core = replace(
            self, rows=self.predictor_rows, cols=self.predictor_cols, predictor_rows=0, predictor_cols=0,
            port_width=min(self.port_width, PREDICTOR_PORT), update_lanes=1,
            # Each vector takes as many cycles as in the main core.
            epilogue_lanes=-(-self.epilogue_lanes * self.predictor_cols // self.result_lanes),
            clamps=False, dropout=False,
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
        """True if the core sums up results for the predictor: it does unless its array is only the predictor's."""
        return self.predicts and self.predictor_rows > 0

    @property
    def convolves_channels(self) -> bool:
        """True if the core has hardware for depthwise convolutions."""
        return self.pools and self.depthwise

    @property
    def normalises(self) -> bool:
        """True if the core has hardware for batch norm."""
        return self.pools and self.batch_norm

    @property
    def drops(self) -> bool:
        """True if the core has hardware for dropout."""
        return self.pools and self.dropout

    @property
    def has_seed(self) -> bool:
        """True if something draws at random, from a seed in a register."""
        return self.flips_signs or self.drops

    @property
    def adds_products(self) -> bool:
        """True if the pool unit adds up products, as depthwise convolutions and batch norm's sums do."""
        return self.convolves_channels or self.normalises

    @property
    def norm_units(self) -> int:
        """Units that make constants of channels: one for 15 PEs, if they share the rows evenly."""
        return max(n for n in range(1, self.rows + 1) if self.rows % n == 0 and (n == 1 or 15 * n <= self.n_pes))

    @property
    def predictor_bytes(self) -> int:
        """Size of the predictor memory in whole pages: the predictor's larger layer and its biases, and slices."""
        operands = self.n_predicted * (HIDDEN + 1) + SLICES * self.slice_elements
        return -(-operands * self.operand_bytes // 4096) * 4096 + 4096

    @property
    def slice_elements(self) -> int:
        """Operands of a slice of predictions on chip, 0 without: as many of the largest filters as begin and end with
        a whole beat."""
        return self.streams * self.beat_elements * (self.n_predicted + 1)

    @property
    def predictor_window(self) -> int:
        """Alignment of the predictor memory's address: the power of two that holds the memory."""
        return 1 << (self.predictor_bytes - 1).bit_length()

    @property
    def predictor_on_chip(self) -> bool:
        """True if there is a predictor memory on chip."""
        return self.variant in ("efficient", "max")

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
        """Width of a sum that leaves the array: of ``rows`` exact products, or of all those of a tile."""
        if self.output_stationary:
            return self.acc_width
        return 2 * self.operand_width + (self.rows - 1).bit_length()

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
        if unknown := sorted(set(data) - known):
            raise ConfigError(f"unknown field {unknown[0]!r}; known fields: {', '.join(sorted(known))}")
        try:
            return cls(**{**data, "dram": DramPart(**data["dram"])})
        except (KeyError, TypeError) as error:
            raise ConfigError(f"incomplete configuration: {error}") from error

    @property
    def config_hash(self) -> int:
        """32-bit digest of everything that decides whether a program fits this accelerator."""
        off = [name for name, value in YOUNGER.items() if getattr(self, name) == value]
        off += ["streamed_predictions"] * (not self.streams)
        unhashed = ("name", "clock_hz", "dram", "variant", "output_stationary", "registered_products", *off)
        data = {k: v for k, v in self.to_dict().items() if k not in unhashed}
        text = json.dumps([VERSION, data], sort_keys=True)
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")
