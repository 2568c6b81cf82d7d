"""Coverage of the generated Verilog by the workloads that mutants of it meet, and by the cocotb benches."""
