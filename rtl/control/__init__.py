"""Everything that decides. The host's register accesses, the program's commands and all blocks' reports enter; tasks
for cores and update unit, and the interrupt leave.

- control: joins the others; csr: the host's registers; supervisor: start, orderly stop, errors; counters: performance
- prefetch, fetch, command_check: read a program's commands, choose and check them
- dispatch, issue: queue commands until those they depend on are complete, and make tasks of them
- exponents, shadow: committed exponents, and maxima of a batch's results; hyper_table: learning rates and the like
- batch_counter, phase_control, quality_gate, cosine: the phase of each batch, and votes on the predictor's quality
"""
