"""The anchor of the row-stationary model: the published tables add up, and how the model stands to them."""

import json
from pathlib import Path

import pytest
from adagp.evaluation.benches import eyeriss

COMMITTED = Path(__file__).parents[3] / "results" / "eyeriss.json"
PUBLISHED = {"alexnet": (2.66, 103.5, 115.3, 0.6874), "vgg16": (46.04, 3755.2, 4309.5, 0.318)}
"""Billions of products of a batch, milliseconds of processing and of all of it, as the tables print their sums; and the
part of the peak."""


def test_the_model_beside_the_chip(tmp_path, monkeypatch):
    path = tmp_path / "eyeriss.json"
    monkeypatch.setattr("sys.argv", ["bench_eyeriss", "--json", str(path)])
    eyeriss.main()
    found, committed = (json.loads(each.read_text()) for each in (path, COMMITTED))
    assert all(found[name] == committed[name] for name in ("figures", "details"))
    for network, (macs, processing, total, utilisation) in PUBLISHED.items():
        rows = [row for row in found["details"] if row["network"] == network]
        assert len(rows) == len(eyeriss.LAYERS[network])
        assert sum(row["macs"] for row in rows) == pytest.approx(1e9 * macs, abs=5e6)
        for name, expected in (("processing_ms", processing), ("total_ms", total)):
            assert sum(row[name] for row in rows) == pytest.approx(expected, abs=0.11)
        assert found["figures"][f"utilisation_{network}_total"] == pytest.approx(utilisation, abs=1e-4)
        assert all(row["ms"] < row["processing_ms"] < row["total_ms"] for row in rows)  # the model is optimistic
    pes = {row["layer"]: (row["pes"], row["measured_pes"]) for row in found["details"]}
    assert [pes[f"CONV{n}"][0] for n in (2, 3, 4, 5)] == [pes[f"CONV{n}"][1] for n in (2, 3, 4, 5)]
    assert pes["CONV1"][0] == pytest.approx(pes["CONV1"][1] * 55 / 56, abs=0.01)  # of four strips of 14 rows one has 13
    assert pes["CONV4-1"][0] == pes["CONV5-3"][0] == 168 > pes["CONV1-1"][1]
