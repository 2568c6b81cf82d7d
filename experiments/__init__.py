"""The paper's networks and data sets, for training with the library in algorithm/."""
