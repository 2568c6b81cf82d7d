"""TensorBoard's events of a training run: the columns of its log, a value an epoch."""

from pathlib import Path

from .settings import SettingsError

__all__ = ["EpochEvents", "events_writer"]


def events_writer():
    """TensorBoard's SummaryWriter; raises SettingsError if its package isn't installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise SettingsError("tensorboard: its package isn't installed: pip install 'adagp[tensorboard]'") from None
    return SummaryWriter


class EpochEvents:
    """Events in a folder of their own, in place of those that an earlier command left there.

    Raises SettingsError if TensorBoard's package isn't installed.
    """

    def __init__(self, folder: Path):
        writer = events_writer()
        for path in folder.glob("events.out.tfevents.*"):
            path.unlink()
        self._writer, self._n_written = writer(str(folder)), 0

    def write(self, log: list[dict]) -> None:
        """Write the rows of the log that aren't written yet: the first time all, those before a kill too."""
        for row in log[self._n_written :]:
            for tag, value in row.items():
                if tag != "epoch" and value is not None:
                    self._writer.add_scalar(tag, value, row["epoch"])
        if len(log) > self._n_written:
            self._writer.flush()
            self._n_written = len(log)

    def close(self) -> None:
        """Close the file."""
        self._writer.close()
