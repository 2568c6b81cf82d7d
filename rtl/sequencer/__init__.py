"""The microcoded sequencer. Tasks enter; descriptors leave, to fill, compute, drain and store.

- sequencer: runs the tile program for each task and queues the descriptors
- processor: the register machine, in five stages, that executes the microcode
- alu: its arithmetic
"""
