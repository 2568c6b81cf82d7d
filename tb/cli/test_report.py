"""``adagp report``: table, plot and figures of a run."""

import json

from adagp.host.training.run_folder import RunFolder
from command_line import SMALL


def test_report(adagp, trained, tmp_path):
    (trained / "report.png").unlink()
    code, out, err = adagp("report", trained, "--json", tmp_path / "report.json")
    assert (code, err) == (0, "") and str(trained / "report.png") in out.replace("\n", "")
    assert (trained / "report.png").exists()
    figures = json.loads((tmp_path / "report.json").read_text())
    assert figures["log"] == RunFolder(trained).log and figures["settings"]["preset"] == "tiny"


def test_cycles_of_the_golden_model(adagp, tmp_path):
    """It has no clock: nothing was measured, which isn't 0."""
    assert adagp("train", "--device", "golden", *SMALL, "-o", tmp_path / "run")[0] == 0
    code, out, _ = adagp("report", tmp_path / "run")
    log = RunFolder(tmp_path / "run").log
    assert code == 0 and all(row["cycles"] == 0 for row in log) and out.count("not measured") == len(log) > 0


def test_an_epoch_without_backpropagation_has_no_training_loss(adagp, tmp_path):
    """The log says that it isn't known, and so do table, plot and file."""
    options = ("--variant", "low", "--warmup-epochs", "1", "--phases", "9:0", "-o", tmp_path / "run")
    code, _, err = adagp("train", "--device", "golden", *SMALL, *options)
    assert code == 0 and "train loss unknown" in err
    log = RunFolder(tmp_path / "run").log
    assert log[0]["train_loss"] > 0 and log[1]["train_loss"] is None and log[1]["train_accuracy"] is None
    assert 0 <= log[1]["test_accuracy"] <= 1
    assert adagp("report", tmp_path / "run")[0] == 0
    assert (tmp_path / "run" / "log.csv").read_text().splitlines()[2].startswith("2,,,")
