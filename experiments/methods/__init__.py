"""The ways to train that the experiments compare, with their costs."""
