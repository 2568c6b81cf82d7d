"""Mutants that no tool here can prove equivalent, and why they are: the last resort, counted as unproved.

Each reason names the source and the signal, what the mutant changes there, and why no state that the machine can reach
shows it. A reason holds for the netlist that it was written for: when the cell's name changes, it is to be given anew.
"""

__all__ = ["ARGUED", "MOST_ARGUED"]

ARGUED = {
    "-mode const1 -module Compute.fetch_b.offsets.odometer -cell $auto$ff.cc:337:slice$1272 -port Q -portbit 7":
        "rtl/odometer.py, span0[7] in im2col's LaneOffsets: what left0 is set to when the outermost level is spent, "
        "which is where the walk ends. Only the lanes that fill up the last group step on from there, and lanes "
        "from n_k on read as 0 whatever their address; the next walk's start sets left0 itself",
    "-mode cnot1 -module Update -cell $procmux$1108 -port Y -portbit 6 -ctrlbit 17":
        "rtl/update.py, result.id[6]: rtl/shadow.py takes as many bits as number the 64 tensors of tiny, 0 to 5",
    "-mode inv -module Sequencer -cell $auto$ff.cc:337:slice$520 -port Q -portbit 16":
        "rtl/sequencer.py, slot3[16]: among the engines' fields number 3 only Drain's s_out is that wide. "
        "drain_walk adds it to addresses of half of C, which keep their lower bits only",
    "-mode const0 -module Sequencer.fill_queue -cell $auto$simple.cc:236:combine_resets$439 -port A -portbit 1":
        "rtl/sequencer.py, the write pointer of fill_queue: rst no longer resets it, Sequencer.reset does. After "
        "rst the machine is idle; nothing is pushed before START, for which the supervisor raises reset for a cycle "
        "first",
    "-mode cnot1 -module Sequencer.core.alu -cell $auto$ff.cc:337:slice$460 -port Q -portbit 0 -ctrlbit 11":
        "rtl/sequencer_alu.py, rest[0] in _quotient: turned only while rest[11] is 1. The rest of a restoring "
        "division is less than the divisor, and tile programs divide by strides (8 bits) and the array's rows and "
        "columns only",
}  # fmt: skip
"""Reasons by what ``mutate`` is told."""

MOST_ARGUED = 6
"""A campaign with more mutants that are only argued fails."""
