"""The state of an experiment's run between two epochs, in a file."""

import io
import pickle
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from ..gen.files import write_atomically
from ..host.training.run_folder import RunError

__all__ = ["History", "restore", "save"]


@dataclass
class History:
    """Batches by phase of a run so far; by epoch the last loss, if it is followed the validation part's score and loss,
    and if they are taken seconds."""

    phases: dict[str, int] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)
    validations: list[float] = field(default_factory=list)
    validation_losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def save(path: Path, parts: dict[str, Any], epoch: int, history: History) -> None:
    """Replace the file; ``parts`` have state dictionaries, ``epoch`` epochs are over."""
    random = {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None}
    states = {name: part.state_dict() for name, part in parts.items()}
    content = io.BytesIO()
    torch.save({"epoch": epoch, "history": asdict(history), "random": random, "parts": states}, content)
    write_atomically(path, content.getvalue())


def restore(path: Path | None, parts: dict[str, Any]) -> tuple[int, History]:
    """Load the parts; returns the epochs that are over and their history, at first none.

    Raises RunError for a file that isn't whole.
    """
    if path is None or not path.exists():
        return 0, History()
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)  # a state can't run code
        for name, part in parts.items():
            part.load_state_dict(saved["parts"][name])
        history, epoch, random = History(**saved["history"]), saved["epoch"], saved["random"]
    except (OSError, EOFError, RuntimeError, ValueError, KeyError, TypeError, pickle.UnpicklingError) as error:
        why = str(error).partition("\n")[0] or type(error).__name__
        raise RunError(f"can't go on from {path}: {why}; without this file the run starts over") from None
    torch.set_rng_state(random["cpu"])
    if random["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(random["cuda"])
    return epoch, history
