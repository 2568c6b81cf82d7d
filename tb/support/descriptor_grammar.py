"""The formal jobs' assumptions about the sequencer's descriptors, as a check of any stream of them."""

from collections import Counter
from math import prod

from adagp.spec.microcode.descriptors import Target, VectorMode

__all__ = ["RULES", "Grammar"]

RULES = {
    "fill a": "i: opens and completes a in turn",
    "fill b": "i: opens and completes b in turn",
    "fill c": "i: opens and completes c in turn",
    "walk": "walk: reduces something",
    "elements": "walk: as many elements as its counts have",
    "sides": "walk: its blocks have rows and columns",
    "blocks": "walk: its last block has the operand's last outer positions",
    "taps": "job: has taps",
    "windows": "job: windows 2 or 3 wide, in rows of at least as many columns",
    "gemm": "i: GEMMs open and complete halves in turn",
    "drain": "i: something to drain",
    "sums": "i: a vector for each sum",
    "place": "start: sums that there are",
    "lanes": "start: of a tile with lanes",
    "store": "i: a tile from begin to close",
}
"""The rules, each by the name of its assumption in tb/formal."""
PADS = {Target.A: "a", Target.B: "b"}


class Grammar:
    """Takes the descriptors of a machine of ``config`` from its reset on, those of each engine in order.

    ``taken`` counts descriptors by engine, ``checked`` the times each rule was looked at.
    """

    def __init__(self, config):
        self._sums = 4 * config.n_filters
        self._cols, self._tap_rows = config.cols, config.tap_rows
        self.taken, self.checked = Counter(), Counter()
        self.reset()

    def reset(self):
        """The machine is reset: nothing is open."""
        self._opened = set()

    def take(self, engine, d):
        """The next descriptor of ``engine``, by its fields; AssertionError with the rule that it breaks."""
        getattr(self, f"_{engine}")(d)
        self.taken[engine] += 1

    def _require(self, rule, holds, d):
        self.checked[rule] += 1
        assert holds, f"{RULES[rule]}, but number {self.taken.total()} is {d}"

    def _in_turn(self, rule, opens, completes, d):
        """An open sweep isn't opened again; one that isn't open is opened first."""
        self._require(rule, bool(opens) == (rule not in self._opened), d)
        (self._opened.discard if completes else self._opened.add)(rule)

    def _fill(self, d):
        """Halves of A, of B, and of C together with its biases."""
        self._in_turn(f"fill {PADS.get(d['target'], 'c')}", d["open"], d["ready"], d)

    def _compute(self, d):
        self._require("walk", d["n_k"] != 0, d)
        if d["mode"] == VectorMode.GEMM:
            self._in_turn("gemm", d["first"], d["last"], d)
            self._require("elements", d["n_k"] == prod(d[f"k{level}"] for level in range(3)), d)
            self._require("sides", d["n_a"] != 0 and d["n_b"] != 0, d)
            self._require("blocks", d["n_a"] == prod(d[f"n{level}"] for level in range(6)) + d["ones"], d)
        else:
            self._require("taps", d["n_a"] != 0, d)
            width, rows = d["task"], d["n5"]
            fits = 2 <= width <= 3 and width <= d["n4"] and 1 <= rows <= self._tap_rows
            allowed = {VectorMode.DOT: not width or fits, VectorMode.SCALE: True, VectorMode.TABLES: True}
            self._require("windows", allowed.get(d["mode"], not width), d)

    def _drain(self, d):
        self._require("drain", d["n_out"] != 0 and d["n_in"] != 0, d)
        if d["reorganise"] and d["vector"]:
            self._require("sums", d["n_in"] == 1 and d["idx"] == 0, d)
            self._require("place", d["at"] + d["n_out"] <= self._sums, d)
        elif d["reorganise"]:
            self._require("lanes", d["lanes_last"] != 0, d)
            filters = d["n_in"] if d["swap"] else (d["n_out"] - 1) * self._cols + d["lanes_last"]
            self._require("place", d["at"] + 4 * filters <= self._sums, d)

    def _store(self, d):
        self._in_turn("store", d["begin"], d["close"], d)
