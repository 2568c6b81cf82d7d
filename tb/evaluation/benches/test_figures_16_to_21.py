"""The bench of the paper's figures: the mix of phases by hand, rows that are kept, and what it refuses."""

import copy
import itertools
import json

import pytest
from adagp.evaluation.benches import figures_16_to_21 as bench
from adagp.evaluation.instruments import paper_batches
from adagp.evaluation.instruments.energy import MODULE
from adagp.host.compiler.mapping import MappingError
from adagp.host.compiler.memory_plan import PlanError

GP = (4 * 4 / 5 + 4 * 3 / 4 + 4 * 2 / 3 + 68 * 1 / 2) / 90
"""Share of GP batches: 10 epochs of warm-up; then 4 to 1 for 4 epochs, 3 to 1 for 4, 2 to 1 for 4, and 1 to 1."""


def batch(cycles, read, written):
    return {
        "cycles": cycles, "macs": 90 * cycles, "array_cycles": cycles, "predictor_cycles": 0, "read_bytes": read,
        "write_bytes": written, "predictor_bytes": 0, "busiest": "array",
        "bytes": {kind: [read, written] if kind == "forward" else [0, 0] for kind in paper_batches.KINDS},
    }  # fmt: skip


def row(images=32):
    """A network whose numbers grow with the images: backward passes take twice as long as forward passes."""
    grown = [batch(cycles * images, read * images, 1000) for cycles, read in ((100, 40), (300, 100), (310, 110))]
    forward, bp, dear = grown
    design = {"warmup": dear, "bp": dear, "gp": batch(105 * images, 44 * images, 1000)}
    designs = {"baseline": {"forward": forward, "bp": bp}, **dict.fromkeys(bench.VARIANTS[1:], design)}
    about = {"pes": 180, "islands": [], "commit": "0" * 40, "seconds": 0.1}
    return {**about, "useful_macs": 21600 * images, "designs": designs}


def test_the_mix_by_hand():
    found = paper_batches.figures_of(row())
    assert abs(GP - 0.4763) < 1e-4
    assert found["backward_to_forward"] == pytest.approx(2)
    assert found["limit"] == pytest.approx(300 / (300 - GP * 200)) == pytest.approx(1.465, abs=5e-4)
    assert found["speedup_max"] == pytest.approx(300 / ((1 - GP) * 310 + GP * 105))
    read, write = MODULE.read_pj, MODULE.write_pj
    base, forward = 3200 * read + 1000 * write, 1280 * read + 1000 * write
    ours = (1 - GP) * (3520 * read + 1000 * write) + GP * (1408 * read + 1000 * write)
    assert found["dram_energy_saving_low"] == pytest.approx(1 - ours / base)
    assert found["ideal_saving"] == pytest.approx(GP * (1 - forward / base))
    assert found["baseline_useful_utilisation"] == pytest.approx(0.4)
    assert found["baseline_utilisation"] == pytest.approx(0.5)


def test_kinds_of_traffic():
    kinds = {name: paper_batches.kind_of(name) for name in (
        "forward", "norm_apply", "maxpool", "backward_data", "depthwise_backward_data", "maxpool_backward",
        "norm_apply_backward", "update", "adam", "reorganise", "predictor forward", "fetch",
    )}  # fmt: skip
    assert list(kinds.values()) == ["forward"] * 3 + ["backward"] * 4 + ["update"] + ["predictor"] * 3 + ["program"]


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Batches that were estimated, by made-up rows; the large network fits in memory up to 20 images."""
    found = []

    def estimate(case, batch, size, seed):
        found.append((case.model, batch))
        return None if case.model == "yolo-v3" and batch > 20 else copy.deepcopy(row(batch))

    monkeypatch.setattr(bench, "estimate", estimate)
    monkeypatch.setattr(bench, "WORK", tmp_path / "work")
    monkeypatch.setattr(bench.time, "process_time", itertools.count(0, 7.5).__next__)
    return found


def test_rows_are_kept(asked, tmp_path):
    """YOLO-v3's batches are halved until they fit."""
    path = tmp_path / "figures.json"
    given = ["--data", "cifar10", "voc", "--dataflows", "free", "--json", str(path), "--models", "vgg13"]
    bench.main([*given, "yolo-v3"])
    assert asked == [(name, n) for name, n in zip(["vgg13", *["yolo-v3"] * 2, "vgg13", *["yolo-v3"] * 2],
                                                  (32, 32, 16, 128, 128, 64), strict=True)]  # fmt: skip
    first = json.loads(path.read_text())
    assert first["details"]["voc_free_16"]["details"]["yolo-v3"]["designs"] == row(16)["designs"]
    assert first["figures"]["speedup_mean_cifar10_free_128_max"] == pytest.approx(1.41, abs=0.02)
    assert first["figures"]["networks_cifar10_free_32"] == 1 and "networks_voc_free_32" not in first["figures"]
    assert (first["figures"]["rows_timed"], first["figures"]["rows_all"]) == (3, 13 * 3 * 2 * 5 + 2 * 2 * 5)
    assert first["figures"]["minutes_on_two_cores"] == round(410 * 7.5 / 120)
    asked.clear()
    bench.main([*given, "yolo-v3", "vgg16"])
    assert asked == [("vgg16", 32), ("vgg16", 128)]
    assert list(json.loads(path.read_text())["details"]["cifar10_free_32"]["details"]) == ["vgg13", "vgg16"]


def test_a_network_that_does_not_fit_stops_no_other(asked, monkeypatch, tmp_path):
    def refuse(case, batch, size, seed):
        if case.model == "vgg13":
            raise MappingError("no tile fits")
        return None if case.model == "vgg19" else row(batch)

    monkeypatch.setattr(bench, "estimate", refuse)
    path = tmp_path / "figures.json"
    given = ["--data", "cifar10", "--dataflows", "free", "--batches", "32", "--json", str(path)]
    with pytest.raises(SystemExit) as stopped:
        bench.main([*given, "--models", "vgg13", "vgg19", "vgg16"])
    assert str(stopped.value).splitlines() == [
        "vgg13 on cifar10, free, batch 32: no tile fits",
        "vgg19 on cifar10, free, batch 32: doesn't fit in memory at any batch",
    ]
    assert list(json.loads(path.read_text())["details"]["cifar10_free_32"]["details"]) == ["vgg16"]


def test_cycles_by_layer(capsys, monkeypatch):
    """All layers are the batch; each one's share of the baseline is a figure. Two networks at once are refused."""
    estimated, whole = paper_batches.estimated, []
    monkeypatch.setattr(
        paper_batches, "estimated", lambda *given, **more: whole.append(estimated(*given, **more)) or whole[-1]
    )
    found = paper_batches.layers(paper_batches.Case("lenet", "cifar10", "free"), 1, "tiny", 1)
    for phases, batches in zip(found.values(), whole, strict=True):
        assert {phase: sum(layers.values()) for phase, layers in phases.items()} == {
            phase: batch.cycles for phase, batch in batches.items()
        }
    assert len(found["max"]["gp"]) == 6 and min(found["efficient"]["bp"].values()) > 0
    gp = {"gp": {"a": 12, "b": 8}}
    found = {"baseline": {"bp": {"a": 30, "b": 10}}, "low": gp, "efficient": gp, "max": gp}
    figures = paper_batches.layer_figures(found)
    assert figures["layers_least_max_gp"] == 0.4 and figures["layers_most_low_gp"] == 0.8
    with pytest.raises(SystemExit):
        bench.main(["--layers", "--models", "vgg13", "--data", "cifar10"])
    assert "--layers takes one network, data set, dataflow and batch, not 10 of them" in capsys.readouterr().err


def test_errors_of_leaving_out(monkeypatch, tmp_path):
    """Cycles and bytes are held against a whole estimate; a network that doesn't fit stops no other."""
    case, short = paper_batches.Case("lenet", "cifar10", "free"), paper_batches.estimate
    found = paper_batches.errors(case, 1, "tiny", 1)
    assert found["known"] < 1e-4 and found["known_bytes"] == 0

    def wrong(*given):
        found = short(*given)
        found["designs"]["max"]["gp"]["bytes"]["update"][1] *= 2
        return found

    monkeypatch.setattr(paper_batches, "estimate", wrong)
    assert paper_batches.errors(case, 1, "tiny", 1)["known_bytes"] == 0.5

    def refuse(case, batch, size, seed):
        if case.model == "vgg13":
            raise PlanError("too large")
        return {"known": 0.01, "known_bytes": 0.0}

    monkeypatch.setattr(bench, "errors", refuse)
    path = tmp_path / "figures.json"
    given = ["--errors", "--data", "cifar10", "--dataflows", "free", "--json", str(path)]
    with pytest.raises(SystemExit) as stopped:
        bench.main([*given, "--models", "vgg13", "vgg16"])
    assert str(stopped.value) == "vgg13 on cifar10, free, batch 32: too large"
    assert json.loads(path.read_text())["figures"] == {"known_bytes_error_worst": 0.0, "known_error_worst": 0.01}


def test_sources_that_decide_an_estimate():
    """The estimator takes numbers from the RTL's and the golden model's modules too."""
    root = paper_batches.deciding()[-1].parents[2]
    there = {path.relative_to(root).as_posix() for path in paper_batches.deciding()}
    assert {
        "rtl/core.py", "golden/occupancy.py", "host/estimate/core.py", "host/training/network.py",
        "evaluation/instruments/estimates.py", "evaluation/instruments/paper_batches.py",
    } <= there  # fmt: skip


def test_what_is_refused(capsys, asked):
    for option, wrong in (("--models", "alexnet"), ("--data", "svhn"), ("--dataflows", "nlr"), ("--jobs", "0")):
        with pytest.raises(SystemExit) as stopped:
            bench.main([option, wrong])
        assert stopped.value.code == 2 and wrong in capsys.readouterr().err
    assert asked == []
