"""Holes that no test can fill, and why."""

from .figures import Exclusion

__all__ = ["EXCLUSIONS"]


def _line(modules: str, text: str, what: str, reason: str) -> Exclusion:
    return Exclusion(rf"adagp\.accelerator\.({modules})", text, what, reason)


_SATURATED = "a bias raised by 31 bits, the most there is, fits a sum"

EXCLUSIONS: list[Exclusion] = [
    _line(r"update\.(reader\.bursts|writer\.walk)\.segments", r"assign .*(more\[1\]|\\\$15) *\?.*", "cond_then",
          "the arrays of an UPDATE are one segment each: its turns are constant"),
    _line(r"compute\.fetch_b", r"assign .* stage3\[3\] \? 16'h0001 : .*", "cond_then",
          "only operand A has a row of ones"),
    _line(r"fill\.requantise", r"if \(\\\$\d+ \) o\[0\] <= 1'h1;", "if", _SATURATED),
    _line(r"fill\.requantise", r"assign .* \{ s0_sign, .* \} : rounded.*;", "cond_then", _SATURATED),
]  # fmt: skip
