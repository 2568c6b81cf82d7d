"""Mutants that no tool here can prove equivalent, and why they are: the last resort, counted apart.

Each reason names the source and the signal, what the mutant changes there, and why no state that the machine can reach
shows it. A reason holds for the netlist that it was written for: when the cell's name changes, it is to be given anew.
"""

__all__ = ["ARGUED"]

_NO_SUCH_CODE = (
    "rtl/control.py, supervisor.errors[i].code: a bit is turned only while another one of an 8-bit code is 1 that is 0 "
    "in each code of spec/errors.py (0 to 16), and every error port is driven by such constants"
)

ARGUED = {
    "-mode cnot1 -module adagp.accelerator.control -cell supervisor -port port$1654$0 -portbit 28 -ctrlbit 57":
        _NO_SUCH_CODE,
    "-mode cnot1 -module adagp.accelerator.control -cell $auto$ff.cc:337:slice$2038 -port D -portbit 9 -ctrlbit 56":
        _NO_SUCH_CODE,
    "-mode const1 -module adagp.accelerator.control.counters -cell $auto$ff.cc:337:slice$1921 -port D -portbit 15":
        "rtl/counters.py, begun[15]: always 1, so the total of place 15 of phase 0 comes from the memory before "
        "anything was written there. spec/registers.py has 12 COUNTERS: _live gives 0 for place 15, the memory "
        "begins as 0, and only what was read plus 0 is written back, so the total is 0 as it is with begun[15] = 0",
    "-mode const1 -module Compute.fetch_b.offsets.odometer -cell $auto$ff.cc:337:slice$1272 -port Q -portbit 7":
        "rtl/odometer.py, span0[7] in im2col's LaneOffsets: what left0 is set to when the outermost level is spent, "
        "which is where the walk ends. Only the lanes that fill up the last group step on from there, and lanes "
        "from n_k on read as 0 whatever their address; the next walk's start sets left0 itself",
    "-mode cnot1 -module Compute.fetch_a.offsets.odometer -cell $procmux$633 -port B -portbit 1 -ctrlbit 11":
        "rtl/odometer.py, left2 in im2col's LaneOffsets: bit 1 is turned only while bit 11 of k2 - 1 is 1, that is "
        "for k2 above 2048. The k2 neighbours are distinct operands of a tile of A, and half of A has room for 2048 "
        "(tiny); the tile program refuses others with A_OVERFLOW",
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
