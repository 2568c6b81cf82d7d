"""Mutants that no tool here can prove equivalent, and why they are: the last resort, counted apart."""

__all__ = ["ARGUED"]

_NO_SUCH_CODE = "changes something only while a bit of an error's code is 1 that no code has: they are 16 at most"

ARGUED = {
    "-mode cnot1 -module adagp.accelerator.control -cell supervisor -port port$1654$0 -portbit 28 -ctrlbit 57":
        _NO_SUCH_CODE,
    "-mode cnot1 -module adagp.accelerator.control -cell $auto$ff.cc:337:slice$2038 -port D -portbit 9 -ctrlbit 56":
        _NO_SUCH_CODE,
    "-mode const1 -module adagp.accelerator.control.counters -cell $auto$ff.cc:337:slice$1921 -port D -portbit 15":
        "slot 15 is no counter: nothing is ever added to its total, and memories begin as 0",
    "-mode const1 -module Compute.fetch_b.offsets.odometer -cell $auto$ff.cc:337:slice$5754 -port Q -portbit 7":
        "the outermost count is taken again only where a walk ends: for lanes from n_k = k0 k1 k2 on, which read as 0",
    "-mode cnot1 -module Compute.fetch_a.offsets.odometer -cell $procmux$3644 -port B -portbit 1 -ctrlbit 11":
        "changes something only while bit 11 of k2 - 1 is 1, and half of A has room for 2048 operands",
    "-mode cnot1 -module Update -cell $procmux$1180 -port Y -portbit 6 -ctrlbit 17":
        "bit 6 of a tensor's number reaches nothing: there are 64, and others are refused",
    "-mode cnot0 -module Compute -cell feeder -port stationary__payload -portbit 35 -ctrlbit 37":
        "an operand that leads nowhere inside the feeder: the array is given it by another wire",
    "-mode const1 -module Update.lane0 -cell $73 -port A -portbit 9":
        "the limits that are compared with end in fifteen ones: lower bits don't decide what is larger",
    "-mode inv -module Sequencer -cell $auto$ff.cc:337:slice$5024 -port Q -portbit 16":
        "slot 3 is at its widest Drain's s_out, of which addresses in the scratchpad take the lower bits",
    "-mode const0 -module Sequencer.fill_queue -cell $auto$simple.cc:236:combine_resets$4943 -port A -portbit 1":
        "where the queue writes isn't reset with the machine; START resets it, before anything is written to it",
    "-mode cnot1 -module Sequencer.core.alu -cell $auto$ff.cc:337:slice$4964 -port Q -portbit 0 -ctrlbit 11":
        "bit 11 of a division's rest, which is less than the divisor: a stride (8 bits) or the array's rows or columns",
}  # fmt: skip
"""Reasons by what ``mutate`` is told."""
