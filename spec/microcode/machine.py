"""Python's side of :func:`adagp.spec.microcode.program.tile_program`: its constants, its task, a recorder."""

from collections.abc import Mapping
from types import SimpleNamespace

from ..commands import FIELDS, CMode, Opcode
from ..config import Config
from ..errors import ErrorCode
from ..norm import (
    APPLY_PLANES,
    BACKWARD_ROW,
    FORWARD_ROW,
    GRADIENT_PLANES,
    KEPT_PLANES,
    STATE_ROW,
    SUMS_ROW,
    WEIGHT_PLANES,
    planes,
)
from ..numerics import BOUND_SHIFT, SHIFT_MAX, SHIFT_MIN, TENSOR_BYTES
from .descriptors import ENGINES, NormTask, Target, VectorMode

__all__ = ["TASK_FIELDS", "Recorder", "TileError", "constants", "descriptors", "task"]

TASK_FIELDS = (*(field.name for field in FIELDS), "a_base", "exp_a", "exp_b", "exp_c", "exp_out", "exp_scale", "dry")
"""The names tile_program may read from ``c``."""

_CONFIG_NAMES = (
    "rows", "cols", "banks", "operand_bytes", "acc_depth", "a_elements", "b_elements", "c_elements",
    "bias_elements", "bias_room", "bias_gradient_room", "max_reduction", "max_average_taps", "max_index",
    "n_filters", "convolves_channels", "kept_words", "bias_words", "clamps", "normalises", "max_values",
    "matmul", "drops", "tap_rows",
)  # fmt: skip


_PLANES = {
    "APPLY_PLANES": APPLY_PLANES, "BACKWARD_PLANES": planes(BACKWARD_ROW), "FORWARD_PLANES": planes(FORWARD_ROW),
    "GRADIENT_PLANES": GRADIENT_PLANES, "KEPT_PLANES": KEPT_PLANES, "STATE_PLANES": planes(STATE_ROW),
    "SUMS_PLANES": planes(SUMS_ROW), "WEIGHT_PLANES": WEIGHT_PLANES,
}  # fmt: skip


class TileError(Exception):
    """A task that can't run; ``code`` is the :class:`~adagp.spec.errors.ErrorCode`."""

    def __init__(self, code: int):
        super().__init__(ErrorCode(code).name)
        self.code = ErrorCode(code)


def constants(config: Config) -> SimpleNamespace:
    """The ``k`` of tile_program: configuration, opcodes, error codes, targets, vector modes, limits."""
    names = {name: getattr(config, name) for name in _CONFIG_NAMES}
    for enum in (Opcode, ErrorCode, Target, VectorMode, NormTask):
        names.update({member.name: int(member) for member in enum})
    names |= _PLANES
    names |= {mode.name: int(mode) for mode in (CMode.MASK, CMode.SUB, CMode.ADD_MASK)}
    limits = {"SHIFT_MIN": SHIFT_MIN, "SHIFT_MAX": SHIFT_MAX, "BOUND_SHIFT": BOUND_SHIFT, "TENSOR_BYTES": TENSOR_BYTES}
    return SimpleNamespace(**names, **limits)


def task(fields: Mapping[str, int], **more: int) -> SimpleNamespace:
    """The ``c`` of tile_program: a command's fields, ``index`` and the other TASK_FIELDS; absent ones are 0.

    ``a_base`` is ``a_addr`` unless given.
    """
    values = dict.fromkeys((*TASK_FIELDS, "index"), 0)
    values.update({"a_base": fields.get("a_addr", 0), **fields, **more})
    return SimpleNamespace(**{name: int(value) for name, value in values.items()})


def _fit(bits, value):
    value &= (1 << bits.width) - 1
    return value - (1 << bits.width) if bits.signed and value >> (bits.width - 1) else value


class Recorder:
    """The ``m`` of tile_program that keeps the descriptors, as (engine, fields) in the order issued.

    Like the sequencer it adds ``command`` and ``half`` (which flips after each STORE with ``close``,
    also from task to task) and cuts every value to its field's width.
    """

    def __init__(self):
        self.issued = []
        self.index = 0
        self.half = 0

    def _issue(self, engine, given):
        values = {"command": self.index, "half": self.half, **given}
        layout = ENGINES[engine]
        unknown = set(given) - {bits.name for bits in layout}
        if unknown:
            raise KeyError(f"{engine} has no field {min(unknown)!r}")
        self.issued.append((engine, {bits.name: _fit(bits, values.get(bits.name, 0)) for bits in layout}))

    def fill(self, **fields):
        self._issue("fill", fields)

    def compute(self, **fields):
        self._issue("compute", fields)

    def drain(self, **fields):
        self._issue("drain", fields)

    def store(self, **fields):
        self._issue("store", fields)
        self.half ^= fields.get("close", 0)

    def fail(self, code):
        raise TileError(code)


def descriptors(program, config: Config, tasks) -> list[tuple[str, dict]]:
    """All descriptors of ``tasks``, one after the other; raises TileError."""
    recorder = Recorder()
    names = constants(config)
    for each in tasks:
        recorder.index = each.index
        program(each, names, recorder)
    return recorder.issued
