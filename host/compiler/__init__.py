"""From a network to the accelerator's program: lowering, memory plan, tilings, dependencies."""
