"""The bench of cycles by kind of operator: cycles never overlap, and all are accounted for."""

import json

import pytest
from adagp.evaluation.benches import kinds, models
from adagp.host.training.timeline import Slice
from adagp.spec.commands import CMode, Command, Opcode

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first


def piece(command, unit, begin, end, dry=False):
    return Slice(unit, "", "", "BP", 0, command, dry, begin, end, 0)


def test_cycles_of_commands():
    found = kinds.spans([
        piece(0, "batch", 0, 1000), piece(1, "fill", 100, 150), piece(1, "store", 180, 200), piece(3, "fill", 150, 260),
        piece(3, "array", 200, 300), piece(4, "array", 350, 360), piece(2, "update", 0, 900),
        piece(5, "fill", 10, 340), piece(6, "array", 360, 400, dry=True),
    ])  # fmt: skip
    assert found == {1: 100, 3: 100, 4: 10, 5: 0}


@pytest.mark.parametrize(("opcode", "fields", "kind"), [
    ("FORWARD", {"stride": 1}, "forward"), ("BACKWARD_DATA", {"stride": 2}, "strided_backward_data"),
    ("DEPTHWISE_BACKWARD_DATA", {"stride": 2}, "depthwise"), ("NORM_APPLY", {}, "norm"),
    ("AVGPOOL", {"r": 1, "s": 1, "c_mode": CMode.ADD}, "add"), ("AVGPOOL", {"r": 1, "s": 1}, "copy"),
    ("AVGPOOL", {"r": 1, "s": 1, "momentum": 1}, "dropout"),
    ("AVGPOOL_BACKWARD", {"r": 2, "s": 2}, "avgpool"), ("MAXPOOL_BACKWARD", {"r": 2, "s": 2}, "maxpool"),
])  # fmt: skip
def test_kinds_of_commands(opcode, fields, kind):
    assert kinds.kind_of(Command(Opcode[opcode], {"r": 3, "s": 3, "stride": 1, **fields})) == kind


def test_a_network(tmp_path, monkeypatch):
    """All cycles of a batch are some kind's, or waits."""
    monkeypatch.setattr(models, "SWITCHES", ())
    monkeypatch.setattr(models, "ENLARGED", {})
    monkeypatch.setattr(kinds, "SIDE", 8)
    path = tmp_path / "kinds.json"
    kinds.main(["--networks", "digits-cnn", "--preset", "tiny", "--json", str(path)])
    written = json.loads(path.read_text())
    found = {name.removesuffix("_digits_cnn"): value for name, value in written["figures"].items()}
    total = found.pop("cycles")
    assert total == written["details"]["digits-cnn"]["details"]["counters"]["cycles"] > 0
    parts = {name: value for name, value in found.items() if name.startswith("cycles_")}
    assert sum(parts.values()) == total and all(value > 0 for value in parts.values())
    assert {"cycles_forward", "cycles_backward_data", "cycles_backward_weight", "cycles_waiting"} <= parts.keys()
    assert parts["cycles_waiting"] < total / 2 and 0.1 < found["gemm_of_bound"] <= 1
