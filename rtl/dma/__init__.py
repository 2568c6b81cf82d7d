"""Transfers between DRAM and scratchpads. FILL and STORE descriptors enter; bursts leave, to the memory port, and
operands, to the pads.

- fill, fill_requests: operands and biases from memory; store: results to memory
- segments, bursts: loops of a descriptor, its bursts and its beats
- region_gate, write_stop: hold writes within the write regions, and back in an orderly stop
"""
