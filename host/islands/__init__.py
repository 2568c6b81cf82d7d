"""Host islands: parts of a network that the host computes in float64 while the program waits at HOST.

* :mod:`.places`: values and gradients in a device's memory.
* :mod:`.joining`, :mod:`.product_exponents`: exponents of tensors that several commands write, in the first batch.
* :mod:`.state`: parameters, momenta and buffers, with SGD.
* :mod:`.runtime`: the stops of a batch, one after the other.
"""
