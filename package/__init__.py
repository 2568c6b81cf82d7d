"""adagp: a DNN training accelerator that predicts gradients (ADA-GP), generated and proven."""

__version__ = "0.1.0"
