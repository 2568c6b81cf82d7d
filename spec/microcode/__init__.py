"""The sequencer's tile program, its instruction set, its compiler and its interpreter."""
