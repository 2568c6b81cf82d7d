"""The page on accuracy, docs/accuracy.md."""
