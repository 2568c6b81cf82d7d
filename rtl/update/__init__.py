"""The update unit: SGD, Adam, the sums of a prediction's quality."""
