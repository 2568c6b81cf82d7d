"""ADA-GP as a PyTorch library: any network and optimizer, trained with predicted gradients (paper, section 3)."""

from ..spec.commands import Phase
from .ada_gp import AdaGP
from .metrics import Metrics
from .predictor import PredictorSettings
from .schedules import PAPER, schedule

__all__ = ["PAPER", "AdaGP", "Metrics", "Phase", "PredictorSettings", "schedule"]
