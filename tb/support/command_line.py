"""Options that the command line's tests share."""

__all__ = ["SMALL"]

SMALL = ("--preset", "tiny", "--batch", "8", "--train-images", "24", "--test-images", "10", "--epochs", "2")
"""Options of a training run of seconds."""
