"""The description of an accelerator as plain data: what ``top.json`` holds."""

import ast
import inspect
import textwrap
from enum import IntEnum
from itertools import pairwise

from ..spec.commands import COMMAND_BYTES, COMMAND_WORDS, FIELDS, CMode, Opcode, Phase
from ..spec.config import VERSION, Config
from ..spec.errors import ErrorCode
from ..spec.layout import Field
from ..spec.registers import COUNTERS, DEVICE_ID, REGISTERS, Control, Status

__all__ = ["MODULE", "describe", "member_docs"]

MODULE = "adagp"
"""Name of the top-level Verilog module."""


def member_docs(enum: type[IntEnum]) -> dict[str, str]:
    """The docstring below each member of ``enum``, on one line; "" where there is none."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(enum))).body
    assert isinstance(tree, ast.ClassDef)
    docs = dict.fromkeys(enum.__members__, "")
    for pair in pairwise(tree.body):
        match pair:
            case ast.Assign(targets=[ast.Name(id=name)]), ast.Expr(value=ast.Constant(value=str(text))):
                docs[name] = " ".join(text.split())
    return docs


def _members(enum):
    return {name: int(member) for name, member in enum.__members__.items()}


def _bits(field: Field) -> dict:
    return {"name": field.name, "lsb": field.lsb, "width": field.width, "signed": field.signed, "doc": field.doc}


def _limits(config):
    return {
        "n_tensors": config.n_tensors,
        "n_hyper": config.n_hyper,
        "operand_bytes": config.operand_bytes,
        "beat_bytes": config.beat_bytes,
        "banks": config.banks,
        "a_elements": config.a_elements,
        "b_elements": config.b_elements,
        "c_elements": config.c_elements,
        "acc_depth": config.acc_depth,
        "bias_elements": config.bias_elements,
        "max_reduction": config.max_reduction,
        "max_average_taps": config.max_average_taps,
        "max_index": config.max_index,
    }


def describe(config: Config) -> dict:
    """Everything a driver of the accelerator must know: configuration, limits, registers, commands."""
    return {
        "module": MODULE,
        "id": DEVICE_ID,
        "version": VERSION,
        "config_hash": config.config_hash,
        "config": config.to_dict(),
        "limits": _limits(config),
        "registers": [
            {
                "name": r.name, "offset": r.offset, "access": r.access.name, "width": r.width, "doc": r.doc,
                "fields": [_bits(field) for field in r.fields],
            } for r in REGISTERS
        ],
        "control": _members(Control),
        "status": _members(Status),
        "counters": [{"name": name, "doc": doc} for name, doc in COUNTERS],
        "command": {
            "words": COMMAND_WORDS,
            "bytes": COMMAND_BYTES,
            "fields": [{"word": field.word, **_bits(field)} for field in FIELDS],
        },
        "opcodes": _members(Opcode),
        "phases": _members(Phase),
        "c_modes": _members(CMode),
        "errors": _members(ErrorCode),
    }  # fmt: skip
