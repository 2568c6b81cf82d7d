"""Plots of a run: loss, accuracy, and where the cycles went."""

from pathlib import Path

__all__ = ["plot_run"]

_STALLS = {
    "array_cycles": "array busy",
    "stall_a": "waiting for operand A",
    "stall_b": "waiting for operand B",
    "stall_load": "loading stationary operands",
    "stall_drain": "waiting for the drain",
    "stall_idle": "no GEMM to do",
}


def plot_run(log: list[dict], title: str, path: Path) -> None:
    """Draw a run's log (rows of the trainer) to ``path`` as PNG, PDF or SVG by its suffix."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import MaxNLocator

    epochs = [row["epoch"] for row in log]
    figure, (losses, accuracies, cycles) = pyplot.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    for part, style in (("train", "--"), ("test", "-")):
        losses.plot(epochs, [row[f"{part}_loss"] for row in log], style, marker=".", label=part)
        accuracies.plot(epochs, [100 * row[f"{part}_accuracy"] for row in log], style, marker=".", label=part)
    losses.set(title="loss", xlabel="epoch", ylim=(0, None))
    accuracies.set(title="accuracy", xlabel="epoch", ylabel="%")
    for axis in (losses, accuracies):
        axis.legend()
        axis.grid(alpha=0.3)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    last = log[-1]
    shares = {label: last.get(name, 0) / max(1, last.get("cycles", 0)) for name, label in _STALLS.items()}
    if last.get("cycles"):
        bars = cycles.barh(list(shares), [100 * share for share in shares.values()])
        cycles.bar_label(bars, fmt="%.1f %%", padding=3)
        cycles.invert_yaxis()
        cycles.set(title=f"where {last['cycles'] / 1e6:.1f} M cycles went", xlabel="% of cycles", xlim=(0, 100))
    else:
        cycles.set_axis_off()
        cycles.text(0.5, 0.5, "this device counts no cycles", ha="center")
    figure.suptitle(title)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
