"""Everything that decides: registers, command fetch and issue, exponents, phases, counters."""
