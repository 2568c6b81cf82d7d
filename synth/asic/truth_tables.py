"""Functions of a Liberty file's cells, as truth tables."""

import re
from collections.abc import Sequence
from functools import cache

from ..errors import TargetError

__all__ = ["inputs_of", "truth"]

_TOKEN = re.compile(r"\s*([A-Za-z_]\w*(?:\[\d+\])?|[!'^&*|+()01])")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\[\d+\])?")


def inputs_of(function: str) -> tuple[str, ...]:
    """The names in a function, in alphabetical order."""
    return tuple(sorted(set(_NAME.findall(function))))


@cache
def truth(function: str, inputs: Sequence[str]) -> tuple[bool, ...]:
    """Values of ``function`` for all combinations of ``inputs`` (hashable); the first input changes slowest.

    Raises TargetError if ``function`` isn't a function of these inputs.
    """
    tokens, place = [], 0
    while place < len(function.rstrip()):
        found = _TOKEN.match(function, place)
        if found is None:
            raise TargetError(f"no function of cells: {function}")
        tokens.append(found[1])
        place = found.end()
    masks = {name: _column(number, len(inputs)) for number, name in enumerate(inputs)}
    parser = _Parser(tokens, masks, function, (1 << (1 << len(inputs))) - 1)
    word = parser.operators(0)
    if parser.tokens:
        raise TargetError(f"no function of cells: {function}")
    return tuple(bool(word >> row & 1) for row in range(1 << len(inputs)))


def _column(number, inputs):
    """An input's values in all rows of a table, as bits of one number."""
    return sum(1 << row for row in range(1 << inputs) if row >> (inputs - 1 - number) & 1)


class _Parser:
    """Takes tokens from the front; values are columns of the truth table."""

    # From the loosest to the tightest; names side by side are AND too.
    BINARY = (("|+", int.__or__), ("&*", int.__and__), ("^", int.__xor__))

    def __init__(self, tokens, masks, function, ones):
        self.tokens, self.masks, self.function, self.ones = tokens, masks, function, ones

    def operators(self, level):
        if level == len(self.BINARY):
            return self.operand()
        signs, apply = self.BINARY[level]
        value = self.operators(level + 1)
        while self.tokens and (self.tokens[0] in signs or ("&" in signs and self.tokens[0] not in "|+^)'")):
            if self.tokens[0] in signs:
                self.tokens.pop(0)
            value = apply(value, self.operators(level + 1))
        return value

    def operand(self):
        token = self.tokens.pop(0) if self.tokens else ")"
        if token == "!":
            value = self.ones ^ self.operand()
        elif token == "(":
            value = self.operators(0)
            if not self.tokens or self.tokens.pop(0) != ")":
                raise TargetError(f"no function of cells: {self.function}")
        elif token in ("0", "1"):
            value = self.ones * int(token)
        elif token in self.masks:
            value = self.masks[token]
        else:
            raise TargetError(f"no function of cells: {self.function}")
        while self.tokens and self.tokens[0] == "'":
            self.tokens.pop(0)
            value ^= self.ones
        return value
