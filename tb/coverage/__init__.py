"""Coverage of the generated Verilog by the tests of the whole accelerator."""
