"""Bit fields in 32-bit words: the notation of commands and registers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import combinations

__all__ = ["Access", "Field", "FieldError", "Register", "pack", "unpack"]


class FieldError(ValueError):
    """A value that doesn't fit its field; the message names field, value and range."""


@dataclass(frozen=True)
class Field:
    """``width`` bits at bit ``lsb`` of 32-bit word ``word``; two's complement if ``signed``."""

    name: str
    word: int
    lsb: int
    width: int
    doc: str
    signed: bool = False

    def __post_init__(self):
        if not (self.lsb >= 0 and self.width >= 1 and self.lsb + self.width <= 32):
            raise FieldError(f"field {self.name}: bits {self.lsb}+{self.width} exceed a 32-bit word")

    @property
    def minimum(self) -> int:
        return -(1 << (self.width - 1)) if self.signed else 0

    @property
    def maximum(self) -> int:
        return (1 << (self.width - self.signed)) - 1

    def overlaps(self, other: "Field") -> bool:
        """Return whether the two fields have a bit in common."""
        return self.word == other.word and self.lsb < other.lsb + other.width and other.lsb < self.lsb + self.width

    def covers(self, other: "Field") -> bool:
        """Return whether the two fields are exactly the same bits."""
        return (self.word, self.lsb, self.width) == (other.word, other.lsb, other.width)

    def encode(self, value: int) -> int:
        """The field's bits in place; raises FieldError when the value doesn't fit."""
        if not self.minimum <= value <= self.maximum:
            raise FieldError(f"{self.name} = {value} is outside {self.minimum}..{self.maximum}")
        return (int(value) & ((1 << self.width) - 1)) << self.lsb

    def decode(self, word: int) -> int:
        """The field's value out of its word."""
        value = (word >> self.lsb) & ((1 << self.width) - 1)
        return value - (1 << self.width) if self.signed and value >> (self.width - 1) else value


def pack(fields: Iterable[Field], values: Mapping[str, int], n_words: int) -> list[int]:
    """Words holding ``values`` (missing ones are 0); raises FieldError for unknown names or misfits."""
    words = [0] * n_words
    left = dict(values)
    for field in fields:
        words[field.word] |= field.encode(left.pop(field.name, 0))
    if left:
        raise FieldError(f"unknown field {next(iter(left))!r}")
    return words


def unpack(fields: Iterable[Field], words: Sequence[int]) -> dict[str, int]:
    """The value of every field by name."""
    return {field.name: field.decode(words[field.word]) for field in fields}


class Access(IntEnum):
    """Access to a register: read-only, read-write, write-only with an effect."""

    RO = 0
    RW = 1
    WO = 2


@dataclass(frozen=True)
class Register:
    """A 32-bit register at byte ``offset``, of which the low ``width`` bits are used.

    ``fields`` name its bits where they are more than one number. Fields that lie in exactly the same bits are
    alternatives: a value has one or the other. Registers that ``predicts`` exist only in variants with a predictor.

    Raises FieldError for fields that overlap in any other way, or exceed the width.
    """

    name: str
    offset: int
    access: Access
    doc: str
    width: int = 32
    fields: tuple[Field, ...] = ()
    predicts: bool = False

    def __post_init__(self):
        for one, other in combinations(self.fields, 2):
            if one.overlaps(other) and not one.covers(other):
                raise FieldError(f"{self.name}: {one.name} and {other.name} share bits")
        for field in self.fields:
            if field.lsb + field.width > self.width:
                raise FieldError(f"{self.name}: field {field.name} exceeds the width of {self.width} bits")

    def pack(self, **values: int) -> int:
        """The register's value with these fields, the others 0; raises FieldError for a value that doesn't fit."""
        given = [field for field in self.fields if field.name in values]
        for one, other in combinations(given, 2):
            if one.overlaps(other):
                raise FieldError(f"{self.name}: {one.name} and {other.name} are the same bits")
        try:
            (word,) = pack(self.fields, values, 1)
        except FieldError as error:
            raise FieldError(f"{self.name}: {error}") from None
        return word

    def unpack(self, word: int) -> dict[str, int]:
        """The value of every field by name, of alternatives too."""
        return unpack(self.fields, [word])
