"""LUTs that a design adds to the baseline, by block, and the reason for each block's size."""

import re
from collections import Counter

from ...synth.breakdown import Tree, difference
from ...synth.netlist import NAMELESS

__all__ = ["ELSEWHERE", "REASONS", "UNEXPLAINED_LUTS", "added", "plain"]

ELSEWHERE = ""
"""Row of the LUTs that no other row has."""
UNEXPLAINED_LUTS = 100
"""A block that adds as many needs a reason."""
ELSEWHERE_SHARE = 0.05
"""Largest share of added LUTs that may be elsewhere, if it is more than UNEXPLAINED_LUTS."""
REASONS = {
    ELSEWHERE: "connections between the blocks, and blocks without a row of their own",
    NAMELESS: "cells that synthesis has left without the name of a block",
    "adam_rate": "Adam's rate with its bias corrections, and the betas' powers: one adder makes products,"
    " a root and a quotient bit by bit",
    "control": "registers, fields of commands, exponents and hyper-parameters for phases, predictions and Adam; with"
    " a second core also its errors and counters",
    "control.exponents.shadow.predictor": "the second core's largest results, which exponents follow",
    "control.gate": "sums of layers, at full width, wait in a queue; cosines are compared bit by bit",
    "control.issue.predictor": "the second core's queue of tasks with all exponents, and the counts they wait for",
    "control.issue.predictor_in_flight": "the second core's tasks that aren't complete",
    "control.phases": "the schedule's table, and a position in it, which the host can read and write",
    "core": "a negation in every lane of the epilogue, and the path of the reorganised sums through it",
    "core.drain.reorganise": "an adder for each lane that is a filter, a tree of adders over lanes that are pixels, and"
    " the walk over windows that finds a pixel's windows",
    "narrow_read": "beats of the memory port become pieces for the predictor's core, whose port is narrower",
    "narrow_write": "pieces of the predictor's core become beats of the memory port",
    "predictor": "scratchpads and tokens of a core of its own: as many banks as its array or its port needs",
    "predictor.compute": "the array, whose multipliers take few LUTs, its accumulator, and fetchers of both operands",
    "predictor.drain": "lanes of an epilogue, at most one for each column: shifts, bias, rounding and saturation",
    "predictor.fill": "walks and bursts as in the main core, whatever the array; for fewer lanes of a beat",
    "predictor.sequencer": "microcode and queues of descriptors as in the main core, whatever the array",
    "predictor.store": "walks, bursts and check of addresses as in the main core, whatever the array",
    "predictor_memory": "data as wide as the memory port from either side, and the order of bursts of all ids over"
    " both",
    "reads": "arbiter of one more client where there is a second core",
    "reads.grants.client3": "requests of the second core",
    "update": "every lane detects weights without a gradient and changes their factors; reader, writer and check"
    " choose among one more array",
    "update.adam": "one lane for all weights: a wide multiplier and a shifter that all terms share, a root, a divider",
    "update.reader.beats_d": "two chunks of a fifth array: errors, or second moments",
    "update.reader.groups_d": "groups of the fifth array, two deep",
    "update.reader.unpack_d": "beats of the fifth array become groups of two sizes",
    "update.third": "exact sums that judge predictions, and three products in each lane",
    "update.writer.beats_d": "two chunks of second moments",
    "update.writer.pack_d": "second moments become beats",
    "writes": "arbiter of one more client where there is a second core",
    "writes.grants.client2": "requests of the second core",
}
"""Reasons for the size of each addition, by path of the block. A block that isn't here counts with the block around it.
A block that the baseline lacks does so only if the baseline lacks that one too, or if it is small."""
_NUMBER = re.compile(r"\$\d+(?=\.|$)")


def plain(blocks: Tree) -> Tree:
    """Blocks without the numbers that tell equal names apart, which differ from design to design."""
    found: Tree = {}
    for block, resources in blocks.items():
        sums = found.setdefault(_NUMBER.sub("", block), dict.fromkeys(resources, 0))
        for resource, number in resources.items():
            sums[resource] += number
    return found


def _around(block):
    return block.rpartition(".")[0]


def _own(blocks):
    """Resources of each block without those of the blocks inside it."""
    found = {block: dict(resources) for block, resources in blocks.items()}
    for block in filter(None, blocks):
        for resource, number in blocks[block].items():
            found[_around(block)][resource] -= number
    return found


def _row(block, baseline):
    """The block around it, or it itself, that has a reason, or that stands in the baseline as if it needed one."""
    while block not in REASONS and "." in block and (block in baseline or _around(block) not in baseline):
        block = _around(block)
    return block


def added(design: Tree, baseline: Tree, title: str) -> dict[str, int]:
    """LUTs that ``design`` adds, by block of ``REASONS``; together they are all that it adds.

    Chance decides on which side of a border between blocks a LUT counts, so blocks that both have are taken together.
    Raises ValueError, beginning with ``title``, if something adds ``UNEXPLAINED_LUTS`` without a reason, or if
    too much is elsewhere.
    """
    design, baseline = plain(design), plain(baseline)
    found: Counter[str] = Counter()
    for block, more in difference(_own(design), _own(baseline)).items():
        found[_row(block, baseline)] += more["lut"]
    without = {block: luts for block, luts in found.items() if block not in REASONS}
    if large := {block: luts for block, luts in without.items() if luts >= UNEXPLAINED_LUTS}:
        listed = ", ".join(f"{block} (+{luts:,} LUTs)" for block, luts in sorted(large.items()))
        raise ValueError(f"{title}: evaluation/report/added_blocks.py has no reason for {listed}")
    for block, luts in without.items():
        del found[block]
        while block not in REASONS:
            block = _around(block)
        found[block] += luts
    if found[ELSEWHERE] > max(UNEXPLAINED_LUTS, ELSEWHERE_SHARE * found.total()):
        raise ValueError(f"{title}: {found[ELSEWHERE]:,} of {found.total():,} LUTs are in no block with a reason")
    return dict(found)
