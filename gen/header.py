"""The C header ``adagp.h``: register offsets, bits, command fields and error codes for drivers in C."""

from ..spec.commands import COMMAND_BYTES, COMMAND_WORDS, FIELDS, CMode, Opcode, Phase
from ..spec.config import VERSION, Config
from ..spec.errors import ErrorCode
from ..spec.registers import COUNTERS, DEVICE_ID, REGISTERS, Control, Status

__all__ = ["header"]

_REGISTER_ACCESSORS = """\
/* Fields of a register's value, by upper-case names: ADAGP_REG_BITS(HYPER_VALUE, EXPONENT, -3) has them in place, to
   be ORed together; ADAGP_REG_GET(value, HYPER_VALUE, MANTISSA). ADAGP_REG_GET_SIGNED is for signed fields. */
#define ADAGP_REG_BITS(reg, field, value) \\
    (((uint32_t)(value) << ADAGP_REG_##reg##_##field##_SHIFT) & ADAGP_REG_##reg##_##field##_MASK)
#define ADAGP_REG_GET(value, reg, field) \\
    (((uint32_t)(value) & ADAGP_REG_##reg##_##field##_MASK) >> ADAGP_REG_##reg##_##field##_SHIFT)
#define ADAGP_REG_GET_SIGNED(value, reg, field) \\
    ((int32_t)(ADAGP_REG_GET(value, reg, field) ^ ADAGP_REG_##reg##_##field##_SIGN) - \\
     (int32_t)ADAGP_REG_##reg##_##field##_SIGN)
"""

_ACCESSORS = """\
/* Fields of a command, an array of ADAGP_COMMAND_WORDS 32-bit words in the accelerator's (little endian)
   byte order, by upper-case name: ADAGP_SET(command, STRIDE, 2). ADAGP_GET_SIGNED is for signed fields. */
#define ADAGP_SET(command, field, value) \\
    ((command)[ADAGP_FIELD_##field##_WORD] = ((command)[ADAGP_FIELD_##field##_WORD] & ~ADAGP_FIELD_##field##_MASK) | \\
     (((uint32_t)(value) << ADAGP_FIELD_##field##_SHIFT) & ADAGP_FIELD_##field##_MASK))
#define ADAGP_GET(command, field) \\
    (((command)[ADAGP_FIELD_##field##_WORD] & ADAGP_FIELD_##field##_MASK) >> ADAGP_FIELD_##field##_SHIFT)
#define ADAGP_GET_SIGNED(command, field) \\
    ((int32_t)(ADAGP_GET(command, field) ^ ADAGP_FIELD_##field##_SIGN) - (int32_t)ADAGP_FIELD_##field##_SIGN)
"""


def _define(name, value, doc=""):
    line = f"#define ADAGP_{name.upper()} {value}"
    return f"{line} /* {doc} */" if doc else line


def _enum(stem, enum):
    return [_define(f"{stem}_{name}", f"{int(member)}u") for name, member in enum.__members__.items()]


def _field(stem, field, doc=""):
    mask = ((1 << field.width) - 1) << field.lsb
    return [
        _define(f"{stem}_{field.name}_SHIFT", f"{field.lsb}", doc),
        _define(f"{stem}_{field.name}_MASK", f"0x{mask:08x}u"),
        *([_define(f"{stem}_{field.name}_SIGN", f"0x{1 << (field.width - 1):x}u")] if field.signed else []),
    ]


def _command_field(field):
    return [_define(f"FIELD_{field.name}_WORD", f"{field.word}", field.doc), *_field("FIELD", field)]


def header(config: Config) -> str:
    """Text of ``adagp.h`` for ``config``; all names start with ``ADAGP_``."""
    sections = [
        ["#ifndef ADAGP_H", "#define ADAGP_H", "", "#include <stdint.h>"],
        [
            _define("CONFIG_HASH_VALUE", f"0x{config.config_hash:08x}u", f"of {config.name}, as CONFIG_HASH shows it"),
            _define("ID_VALUE", f"0x{DEVICE_ID:08x}u", "as ID shows it"),
            _define("VERSION_VALUE", f"0x{VERSION:08x}u", "as VERSION shows it"),
            _define("N_TENSORS", config.n_tensors),
            _define("N_HYPER", config.n_hyper),
            _define("OPERAND_BYTES", config.operand_bytes),
            _define("BEAT_BYTES", config.beat_bytes),
        ],
        ["/* Byte offsets of the registers. */"],
        [_define(f"REG_{r.name}", f"0x{r.offset:03x}u", f"{r.access.name}: {r.doc}") for r in REGISTERS],
        [line for r in REGISTERS for field in r.fields for line in _field(f"REG_{r.name}", field, field.doc)],
        [_REGISTER_ACCESSORS.rstrip("\n")],
        _enum("CONTROL", Control),
        _enum("STATUS", Status),
        _enum("ERROR", ErrorCode),
        [_define(f"COUNTER_{name}", f"{index}u", doc) for index, (name, doc) in enumerate(COUNTERS)],
        [_define("COMMAND_WORDS", COMMAND_WORDS), _define("COMMAND_BYTES", COMMAND_BYTES)],
        _enum("OPCODE", Opcode),
        _enum("PHASE", Phase),
        _enum("C_MODE", CMode),
        [line for field in FIELDS for line in _command_field(field)],
        [_ACCESSORS + "\n#endif"],
    ]
    return "\n\n".join("\n".join(section) for section in sections) + "\n"
