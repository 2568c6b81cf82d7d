"""The networks of the experiments: the paper's fifteen and small ones."""
