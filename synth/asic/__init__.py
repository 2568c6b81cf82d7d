"""Standard cells: Liberty files, memory models, static timing and power."""
