"""The estimator: cycles and bytes of a compiled program from the machine's own microcode, without data.

Descriptors and the bytes that they move are exact. Time is that of engines as processes: each works on a descriptor
for as many cycles as its hardware does, takes and gives the same tokens, and shares the memory port with the others.

- ``sequencing.py``: the descriptors that the sequencer makes of a task, each with the cycle of its push
- ``traffic.py``: segments, bursts, beats and granules of a descriptor; the table of bytes by command and operand
- ``clock.py``: processes in time, tokens and queues between them; ``memory.py``: the port and the part after it
- ``core.py``, ``compute.py``, ``drain.py``, ``dma.py``: a core's sequencer and engines; ``update.py``: the update unit
- ``repeats.py``: what repeats in a program, so that it needs to run once
- ``machine.py``: fetch, the queues of commands, and a program's batch as a whole
"""
