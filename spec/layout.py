"""Bit fields in 32-bit words: the one notation behind commands and registers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Field", "FieldError", "pack", "unpack"]


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
