"""Progress of several runs on the screen."""

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from .runs import Outcome, Run, Standing

__all__ = ["RunsProgress"]


class RunsProgress:
    """A line for each run under way, one for all of them, and one that stays for each that has ended.

    ``part``: the score shown of that, "test" or "validation".
    """

    def __init__(self, console: Console, ended: int, runs: int, part: str = "test"):
        self._bars = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[says]}"),
            TimeRemainingColumn(), console=console, transient=True,
        )  # fmt: skip
        self._all = self._bars.add_task("all runs", total=runs, completed=ended, says=f"{ended} of {runs}")
        self._ended, self._runs, self._part = ended, runs, part
        self._tasks: dict[Run, TaskID] = {}

    def __enter__(self) -> "RunsProgress":
        self._bars.start()
        return self

    def __exit__(self, *_) -> None:
        self._bars.stop()

    def told(self, run: Run, standing: Standing) -> None:
        """Show how a run stands."""
        if run not in self._tasks:
            name = f"{run.method}, seed {run.seed}"
            self._tasks[run] = self._bars.add_task(name, total=standing.total, completed=standing.done, says="")
        score = "" if standing.score != standing.score else f"  validation {standing.score:.2f} %"
        says = f"epoch {standing.epoch} of {standing.epochs}  loss {standing.loss:.3f}{score}"
        self._bars.update(self._tasks[run], completed=standing.done, says=says)

    def ended(self, run: Run, outcome: Outcome) -> None:
        """Show what came of a run."""
        if run in self._tasks:
            self._bars.remove_task(self._tasks.pop(run))
        self._ended += 1
        self._bars.update(self._all, completed=self._ended, says=f"{self._ended} of {self._runs}")
        score = getattr(outcome, self._part)
        came = "diverged" if score != score else f"{self._part} {score:.2f} %"
        share = 100 * outcome.macs / outcome.whole
        self._bars.console.print(f"{run.method}, seed {run.seed}: {came}, at {share:.1f} % of BP's cost")
