"""Generation: Verilog, its JSON description, the C header, the sequencer's microcode, tables."""
