"""The register map: fields against a table written by hand, packing at their limits, refused values."""

from dataclasses import replace

import pytest
from adagp.spec.layout import Field, FieldError, Register
from adagp.spec.registers import COUNTER_SLOTS, DEVICE_ID, N_PHASES, REGISTERS, Control, Status, register

UNSIGNED, SIGNED = False, True
FIELDS = {
    "VERSION": {"minor": (0, 16, UNSIGNED), "major": (16, 16, UNSIGNED)},
    "EXPONENT": {
        "cur": (0, 8, SIGNED), "next": (8, 8, SIGNED), "fraction": (8, 8, UNSIGNED), "has_next": (16, 1, UNSIGNED),
        "is_scale": (17, 1, UNSIGNED),
    },
    "HYPER_VALUE": {"mantissa": (0, 16, UNSIGNED), "exponent": (16, 8, SIGNED)},
    "COUNTER": {"place": (0, 4, UNSIGNED), "phase": (4, 2, UNSIGNED)},
    "ENTRY_LENGTHS": {"gp": (0, 16, UNSIGNED), "bp": (16, 16, UNSIGNED)},
    "POSITION_RUN": {"left": (0, 16, UNSIGNED), "gp": (16, 1, UNSIGNED)},
    "GATE_THRESHOLD": {"mantissa": (0, 16, UNSIGNED), "exponent": (16, 8, SIGNED), "in_use": (31, 1, UNSIGNED)},
}  # fmt: skip
"""Least bit, width and signedness of every field: programs and drivers rely on them."""
WIDTHS = {
    "CONTROL": 4, "STATUS": 4, "ERROR": 8, "ERROR_INDEX": 16, "IRQ_ENABLE": 1, "PHASE": 3, "CALIBRATE": 1, "TENSOR": 12,
    "EXPONENT": 18, "HYPER": 8, "HYPER_VALUE": 24, "COUNTER": 6, "WARMUP_EPOCHS": 16, "ENTRIES": 4, "ENTRY": 3,
    "ENTRY_EPOCHS": 16, "POSITION_RUN": 17, "PHASE_NOW": 2, "GATE": 1,
}  # fmt: skip
"""Bits of the registers that use fewer than 32."""
WORDS = [
    ("VERSION", {"major": 1, "minor": 2}, 0x0001_0002), ("EXPONENT", {"cur": -1}, 0xFF),
    ("EXPONENT", {"cur": 5, "next": -2, "has_next": 1}, 0x1_FE05),
    ("EXPONENT", {"cur": -128, "fraction": 255, "is_scale": 1}, 0x2_FF80),
    ("HYPER_VALUE", {"mantissa": 0xFFFF, "exponent": -3}, 0xFD_FFFF), ("COUNTER", {"phase": 2, "place": 11}, 43),
    ("ENTRY_LENGTHS", {"gp": 2, "bp": 3}, 0x3_0002), ("POSITION_RUN", {"left": 7, "gp": 1}, 0x1_0007),
    ("GATE_THRESHOLD", {"mantissa": 0x8000, "exponent": -16, "in_use": 1}, 0x80F0_8000),
]  # fmt: skip
ALL = [pytest.param(r, field, id=f"{r.name}-{field.name}") for r in REGISTERS for field in r.fields]


def test_fields_are_where_they_are_known_to_be():
    found = {r.name: {f.name: (f.lsb, f.width, f.signed) for f in r.fields} for r in REGISTERS if r.fields}
    assert found == FIELDS
    assert {r.name: r.width for r in REGISTERS if r.width < 32} == WIDTHS
    assert all(f.word == 0 and f.lsb + f.width <= r.width for r in REGISTERS for f in r.fields)


def test_constants_are_what_they_are_known_to_be():
    assert (DEVICE_ID, N_PHASES, COUNTER_SLOTS) == (0x41444750, 4, 16)
    assert DEVICE_ID.to_bytes(4, "big") == b"ADGP"
    assert sum(Control) < 1 << register("CONTROL").width and sum(Status) < 1 << register("STATUS").width


def test_fields_share_no_bits_but_for_alternatives():
    shared = []
    for r in REGISTERS:
        owner = {}
        for field in r.fields:
            for bit in range(field.lsb, field.lsb + field.width):
                shared += [(r.name, owner[bit], field.name)] if bit in owner else []
                owner[bit] = field.name
    assert shared == [("EXPONENT", "next", "fraction")] * 8


@pytest.mark.parametrize(("name", "values", "word"), WORDS)
def test_words_by_hand(name, values, word):
    assert register(name).pack(**values) == word
    assert values.items() <= register(name).unpack(word).items()


@pytest.mark.parametrize(("r", "field"), ALL)
def test_limits_go_through_a_register(r, field):
    others = {other.name for other in r.fields if not other.overlaps(field)}
    for value in (field.minimum, field.maximum, 0):
        found = r.unpack(r.pack(**{field.name: value}))
        assert found[field.name] == value and all(found[other] == 0 for other in others)
        assert r.unpack((1 << 32) - 1 ^ r.pack(**{field.name: -1 if field.signed else field.maximum}))[field.name] == 0


@pytest.mark.parametrize(("r", "field"), ALL)
def test_values_that_do_not_fit_are_refused(r, field):
    for value in (field.minimum - 1, field.maximum + 1):
        with pytest.raises(FieldError, match=rf"^{r.name}: {field.name} = {value} is outside"):
            r.pack(**{field.name: value})


def test_unknown_fields_and_both_alternatives_are_refused():
    with pytest.raises(FieldError, match=r"^HYPER_VALUE: unknown field 'fraction'"):
        register("HYPER_VALUE").pack(fraction=1)
    with pytest.raises(FieldError, match=r"^EXPONENT: next and fraction are the same bits"):
        register("EXPONENT").pack(next=0, fraction=0)


@pytest.mark.parametrize("lsb", (15, 16, 23))
def test_overlapping_fields_are_refused(lsb):
    r = register("HYPER_VALUE")
    with pytest.raises(FieldError, match=r"^HYPER_VALUE: (mantissa|exponent) and extra share bits"):
        replace(r, fields=(*r.fields, Field("extra", 0, lsb, 2, "")))


def test_fields_beyond_the_width_are_refused():
    with pytest.raises(FieldError, match=r"^R: field above exceeds the width of 8 bits"):
        Register("R", 0, register("PHASE").access, "", 8, (Field("above", 0, 7, 2, ""),))
