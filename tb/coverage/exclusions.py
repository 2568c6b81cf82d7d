"""Holes that no test can fill, and why."""

from .figures import Exclusion

__all__ = ["EXCLUSIONS"]

_DECODED = (
    "control.exponents", "control.issue", "control.supervisor", "drain", r"drain.bias\$\d+", "fill", "reads.grants",
    "sequencer", "store", "update", "update.check", "update.reader", "update.writer", "writes.grants",
)  # fmt: skip
"""Comparisons of a register with all the values that it takes."""


def _line(modules: str, text: str, what: str, reason: str) -> Exclusion:
    return Exclusion(rf"adagp\.accelerator\.({modules})", text, what, reason)


def _saturates(modules: str, reason: str) -> list[Exclusion]:
    """The two places at which a requantiser saturates."""
    return [
        _line(modules, r"if \(\\\$\d+ \) o\[0\] <= 1'h1;", "if", reason),
        _line(modules, r"assign .* \{ s0_sign, .* \} : rounded.*;", "cond_then", reason),
    ]


EXCLUSIONS: list[Exclusion] = [
    _line("|".join(_DECODED), "default:", "case", "one of a parallel case's selectors is always on: the register they "
          "compare has no other value"),
    _line(r"control\.supervisor", r"assign loss[34] = .*", "cond_then",
          "what the update unit and fetch report is no loss of the queue of compute commands: constants say so"),
    _line(r"update\.(reader\.bursts|writer\.walk)\.segments", r"assign .*(more\[1\]|\\\$15) *\?.*", "cond_then",
          "the arrays of an UPDATE are one segment each: its turns are constant"),
    _line(r"compute\.fetch_b", r"assign .* stage3\[3\] \? 16'h0001 : .*", "cond_then",
          "only operand A has a row of ones"),
    _line(r"compute\.fetch_b\.offsets\.odometer", r"assign .* spent[01]  ?\? span[01] : .*", "cond_else",
          "operand B's reduction is one level: its levels above have one step"),
    _line(r"update\.check", r"assign .*\? 5'h10 : .*", "cond_then",
          "fetch has refused an UPDATE whose addresses aren't multiples of the beat"),
    _line(r"update\.reader", r"else if \(make_patterns_logic_\d+ \) array <= .*", "else",
          "one of four selectors is always on: the register of two bits that they compare has no other value"),
    *_saturates(r"drain\.epilogue\.lane\d+\.scale_c", "an operand raised by 31 bits, the most there is, fits a sum"),
    *_saturates(r"fill\.requantise", "a bias raised by 31 bits, the most there is, fits a sum"),
    *_saturates(r"update\.lane\d+\.align_gradient", "a gradient raised by 40 bits, the most there is, has 55 bits"),
    *_saturates(r"update\.lane\d+\.round_[vw]", "without its guard bits the sum of three numbers of 56 bits has 50"),
]  # fmt: skip
