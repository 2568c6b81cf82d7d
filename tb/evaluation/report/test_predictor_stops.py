"""Sentences on a GP batch's waits at the host's stops."""

from adagp.evaluation.report.predictor_stops import told


def test_each_design_that_is_there_is_told():
    figures = {
        f"{what}_{name}": value for name, values in {"low": (9e6, 0, 5e5), "max": (8e6, 2.5e5, 1e6)}.items()
        for what, value in zip(("cycles", "predictor", "update"), values, strict=True)
    }  # fmt: skip
    text = told(figures | {"stops_low": 4, "stops_max": 4})
    assert "stops 4 times" in text and text.count("cycles of a batch") == 1
    assert "LOW, which has one array: 9.00, of which 0.50 wait for updates. MAX as" in text
    assert text.endswith(": 8.00, of which 0.25 wait for the predictor and 1.00 for updates.")
    assert "8x8" not in text


def test_designs_with_other_stops_are_told():
    figures = {"cycles_low": 9e6, "update_low": 5e5, "stops_low": 4, "stops_max": 5}
    assert "stops 4 or 5 times" in told(figures)


def test_nothing_is_told_without_figures():
    assert told({}) == ""
