"""Mutants that no tool here can prove equivalent, and why they are: the last resort, counted as unproved.

Each reason names the source, the signal and the mutant's effect there. It says why no reachable state of the machine
shows the effect. A reason holds only for the module whose digest stands before it, with the modules inside. If the
module changes, the reason must be given anew.
"""

__all__ = ["ARGUED", "MOST_ARGUED", "PREDICTING_ARGUED", "SWITCHED_ARGUED"]

ARGUED = {
    "-mode const1 -module Compute.fetch_b.offsets.odometer -cell $auto$ff.cc:337:slice$1272 -port Q -portbit 7":
        ("95064f0ef91ff1004be4082d",
         "rtl/lib/odometer.py, span0[7] in im2col's LaneOffsets: what left0 is set to when the outermost level is "
         "spent, which is where the walk ends. Only the lanes that fill up the last group step on from there, "
         "and lanes from n_k on read as 0 whatever their address; the next walk's start sets left0 itself"),
    "-mode const0 -module Sequencer.fill_queue -cell $auto$simple.cc:236:combine_resets$439 -port A -portbit 1":
        ("7ff4ebd99851f28ad2040aa5",
         "rtl/sequencer/sequencer.py, the write pointer of fill_queue: rst no longer resets it, Sequencer.reset does. "
         "After rst the machine is idle; nothing is pushed before START, for which the supervisor raises reset first"),
    "-mode cnot1 -module Sequencer.core.alu -cell $auto$ff.cc:337:slice$460 -port Q -portbit 0 -ctrlbit 11":
        ("f5dac67255af8c62a5d8eb34",
         "rtl/sequencer/alu.py, rest[0] in _quotient: turned only while rest[11] is 1. The rest of a restoring "
         "division is less than the divisor, and tile programs divide by strides (8 bits) and the array's rows and "
         "columns only"),
    "-mode cnot1 -module adagp.accelerator.compute -cell apart -port i__payload -portbit 284 -ctrlbit 31":
        ("30ba71f651051ddc2ca688e5",
         "rtl/top.py, kjump1[6] of Compute's descriptors: turned only while n1[7] is 1. GEMMs have 1 as n1; in the "
         "vector modes k0 and k1 are 1, so that kjump1 is never added (spec/microcode/issue.py)"),
}  # fmt: skip
"""Waivers of the baseline: digest of the module, and reason, by the command that ``mutate`` is given."""

PREDICTING_ARGUED = {
    "-mode const0 -module AdamRate.serial -cell $26 -port A -portbit 25":
        ("458c3c68d63b36ac30afc1bf",
         "rtl/update/adam_rate.py, bit 25 of what is left where a subtraction didn't go below 0. That is less than the "
         "divisor, the 24 bits of 1 - beta1^t, or at most twice the root, which has 23 bits"),
    "-mode const0 -module Reorganise.walk -cell $auto$ff.cc:337:slice$335 -port Q -portbit 10":
        ("4a8eb0df710902eb3ce9b0e2",
         "rtl/drain/window_walk.py, x[10]: a tile has whole rows, and no more results than a half of the C scratchpad "
         "holds, 1024 in preset tiny, so that x is 1023 at most"),
    "-mode const0 -module Reorganise.walk -cell $72 -port Y -portbit 10":
        ("4a8eb0df710902eb3ce9b0e2",
         "rtl/drain/window_walk.py, (rows_left - 1)[10]: for the same reason there are at most 1024 rows, and 1023 are "
         "left after one"),
}  # fmt: skip
"""Waivers of the blocks that only predicting designs have."""

SWITCHED_ARGUED = {
    "-mode const0 -module ChannelConstants -cell $432 -port A -portbit 16":
        ("33e69d00abe6f03eafd8f946",
         "rtl/norm/forward_steps.py, epsilon_exponent - place before EPSILON_LEFT is taken away. The first has 8 bits, "
         "the other is twice an exponent of 8 bits, or a running variance's of 16, less 16. So the difference is below "
         "2^16, and bit 16 is 0 unless it is negative. Then it stays negative without that bit, as bit 17 is the sign "
         "too, and cut is 0 however negative it is"),
    "-mode const0 -module ChannelConstants.root -cell $20 -port B -portbit 25":
        ("6eda0c688fef5f6935213ea3",
         "rtl/lib/square_root.py, bit 23 of the root so far, of 24 bits: a root that is taken has 23 bits before its "
         "last one. Only later does o change with what the stage goes on to make of it, and ChannelConstants takes o "
         "in the cycle that its latency says, never again"),
    "-mode cnot1 -module ChannelConstants.divide -cell $auto$ff.cc:337:slice$1145 -port Q -portbit 9 -ctrlbit 24":
        ("ac67b2a5a7cd057eb59aa7a3",
         "rtl/norm/serial_divide.py, rest[9]: turned only while rest[24] is 1. The rest is less than the divisor, a "
         "root of 24 bits or the number of a channel's values, 2^24 at most (docs/machine.md)"),
}  # fmt: skip
"""Waivers of the blocks that only the generator's switches build."""

MOST_ARGUED = 5
"""A campaign with more mutants that aren't proved, but only argued or proved with an unproved invariant, fails."""
