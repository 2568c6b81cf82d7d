"""The page of the paper's figures: built from small results, with verdicts that follow from the numbers."""

import copy
import json
import re

import pytest
from adagp.algorithm import paper_numbers as paper
from adagp.evaluation.instruments.paper_batches import KINDS, NETWORKS
from adagp.evaluation.instruments.variants import limit, shares
from adagp.evaluation.report import estimator, paper_figures, paper_plots, paper_sentences
from adagp.spec.config import VARIANTS


def batch(cycles, forward, update, predictor=0):
    kinds = {kind: [0, 0] for kind in KINDS}
    kinds |= {"forward": forward, "update": update, "predictor": [predictor, predictor]}
    read, written = (sum(pair[side] for pair in kinds.values()) for side in (0, 1))
    return {
        "cycles": cycles, "macs": 90 * cycles, "array_cycles": cycles, "predictor_cycles": 0, "read_bytes": read,
        "write_bytes": written, "predictor_bytes": 0, "bytes": kinds, "busiest": "array",
    }  # fmt: skip


def row(backward, update=0):
    """A network whose backward pass takes so many forward passes, and as much traffic; predictions cost nothing."""
    bp = batch(100 * (1 + backward), [1000 * (1 + backward), 0], [update, update])
    gp = batch(100, [1000, 0], [update, update])
    predicting = {"warmup": bp, "bp": bp, "gp": gp}
    designs = {"baseline": {"forward": batch(100, [1000, 0], [0, 0]), "bp": bp},
               **{variant: copy.deepcopy(predicting) for variant in VARIANTS[1:]}}  # fmt: skip
    return {"pes": 180, "islands": ["softmax"] if backward > 2 else [], "designs": designs,
            "useful_macs": 0.8 * bp["macs"], "commit": "0" * 40, "seconds": 1.0}  # fmt: skip


@pytest.fixture
def results():
    parts = {
        "cifar10_free_32": {"vgg13": row(2), "resnet50": row(3)}, "cifar10_ws_32": {"vgg13": row(2)},
        "imagenet_free_32": {"vgg13": row(2, update=3000)}, "voc_free_16": {"yolo-v3": row(3)},
        "cifar10_free_128": {"vgg13": row(2)},
    }  # fmt: skip
    cycles = {"a.Conv2d": 3000, "Linear": 1000}
    phases = {"warmup": cycles, "bp": cycles, "gp": {"a.Conv2d": 1200, "Linear": 900}}
    layers = {"baseline": {"bp": cycles}, **dict.fromkeys(VARIANTS[1:], phases)}
    found = {name: {"details": rows, "figures": []} for name, rows in parts.items()}
    return {"details": {**found, "layers": {"details": {"vgg13 on cifar10": layers}}}}


def test_the_section(results):
    text = paper_figures.section(results, paper_figures.TEXTS)
    gp = shares()["gp"]
    means = (limit(2, gp) + limit(3, gp)) / 2, limit(3, gp)
    (line,) = re.findall(r"^\| free, all there are\*, CIFAR-10 \|.*$", text, re.MULTILINE)
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    both = f"{means[0]:.3f}, {means[1]:.3f}"
    assert cells[1:] == ["2", *[both] * 3, "", both, "2.50", "40.0 % / 50.0 %"]
    for name in ("free", r"ws \(figure 17\)"):  # of the network that both dataflows have
        (line,) = re.findall(rf"^\| {name}, CIFAR-10 \|.*$", text, re.MULTILINE)
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        one = f"{limit(2, gp):.3f}"
        assert cells[1:6] == ["1", *[f"{one}, {one}"] * 3, ""]
    assert text.count("| resnet50*, CIFAR-10") == 2 and text.count("| yolo-v3*, Pascal VOC") == 2
    assert "| free, CIFAR-10, batch 128 | 1 |" in text and "| vgg13, CIFAR-10, batch 128 |" in text
    assert "| CIFAR-10*, free | 32 | 2 |" in text and "| Pascal VOC*, free | 16 | 1 |" in text
    assert f"| vgg13, CIFAR-10 | {one} / {one} | {one} / {one} |  |" in text  # by dataflow
    whole, part = "3 (100 %)", "1 (40 %)"
    assert f"| a | 3 | {' | '.join([whole, whole, part, whole, part, whole, part])} |\n| Linear | 1 |" in text
    told = text.replace("\n", " ")
    assert "counted: resnet50 on CIFAR-10: `softmax`; yolo-v3 on Pascal VOC: `softmax`." in told
    assert "1.48, 1.51 and 1.58 need backward passes of 2.13, 2.44 and 3.36 forward passes" in told


def test_the_paper_stands_beside_all_its_networks(results):
    every = {name: row(2) for name, sets in NETWORKS.items() if "cifar10" in sets}
    results["details"]["cifar10_ws_32"]["details"] = results["details"]["cifar10_free_32"]["details"] = every
    text = paper_figures.speedups(paper_figures.parts_of(results))
    (line,) = re.findall(r"^\| ws \(figure 17\), CIFAR-10 \|.*$", text, re.MULTILINE)
    printed = [str(of["ws"]["cifar10"]) for of in (paper.DATAFLOW_SPEEDUP, paper.DATAFLOW_MOST_SPEEDUP)]
    assert line.split("|")[6].strip() == ", ".join(printed)


def test_rows_of_several_states_are_told(results):
    parts = paper_figures.parts_of(results)
    assert "several states" not in paper_sentences.legend(parts)
    parts["cifar10", "free", 32]["resnet50"]["commit"] = "1" * 40
    told = paper_sentences.legend(parts).replace("\n", " ")
    assert told.endswith("by commit with their number: 0000000 (5), 1111111 (1).")


def test_images_without_their_rows_are_left_out(results, tmp_path, monkeypatch):
    for part in ("layers", "voc_free_16"):
        del results["details"][part]
    page = tmp_path / "page.md"
    page.write_text(f"{paper_figures.BEGIN}\n{paper_figures.END}")
    (tmp_path / "results.json").write_text(json.dumps(results))
    monkeypatch.setattr(paper_figures, "PATH", page)
    monkeypatch.setattr(paper_figures, "RESULT", tmp_path / "results.json")
    paper_figures.main()
    drawn = {path.stem for path in tmp_path.rglob("*.png")}
    assert drawn == {"paper_speedups", "paper_energy"} == set(re.findall(r"images/(\w+)\.png", page.read_text()))
    assert not re.search("figure 16|Tables 2 and 3", page.read_text())
    results["details"] = {}
    assert re.findall("^## .*", paper_figures.section(results, paper_figures.TEXTS), re.M) == [
        "## What the paper must have assumed"
    ]


def test_idle_products_are_told(results):
    parts = paper_figures.parts_of(results)
    told = paper_sentences.zeros(parts).replace("\n", " ")
    assert told.endswith("resnet50 on CIFAR-10 (4.00), yolo-v3 on Pascal VOC (4.00).")
    del parts["cifar10", "free", 32]["resnet50"], parts["voc", "free", 16]
    assert paper_sentences.zeros(parts) == ""


def test_energy_by_kind():
    """The backward pass is a BP batch's rest, and what is for the predictor is apart."""
    one = row(2, update=500)
    for phase in ("warmup", "bp", "gp"):
        one["designs"]["max"][phase]["bytes"]["predictor"] = [70, 0]
    base, ours = paper_plots.energy(one, "baseline"), paper_plots.energy(one, "max")
    assert base["backward"] == pytest.approx(2 * base["forward"]) and base["predictor"] == base["program"] == 0
    assert ours["forward"] == pytest.approx(base["forward"]) and ours["update"] == pytest.approx(base["update"])
    assert ours["backward"] == pytest.approx((1 - shares()["gp"]) * base["backward"])
    assert ours["predictor"] == pytest.approx(0.07 * base["forward"])


def test_the_plots(results, tmp_path):
    parts = paper_figures.parts_of(results)
    found = [(data, flow, rows) for (data, flow, _), rows in parts.items()]
    paper_plots.plot_speedups(found, tmp_path / "speedups.png")
    paper_plots.plot_layers(results["details"]["layers"]["details"]["vgg13 on cifar10"], tmp_path / "layers.png")
    paper_plots.plot_energy([("cifar10", 32, parts["cifar10", "free", 32])], tmp_path / "energy.png")
    assert {path.name for path in tmp_path.iterdir() if path.stat().st_size > 5000} == {
        "speedups.png", "layers.png", "energy.png",
    }  # fmt: skip


def test_weights_that_gp_leaves_alone_are_told(results):
    """A quarter is left: an update of 10 bytes read and 8 written, and a prediction of 2 written, are added for it."""
    one = row(2)
    for design in one["designs"].values():
        for phase, found in design.items():
            weights = 0 if phase == "forward" else 300 if phase == "gp" else 400
            found["bytes"]["update"] = [10 * weights, 8 * weights]
            found["read_bytes"], found["write_bytes"] = (
                sum(pair[side] for pair in found["bytes"].values()) for side in (0, 1)
            )
    assert paper_sentences.left_alone(one) == 0.25
    gp = paper_sentences.with_all_updates(one)["designs"]["max"]["gp"]
    assert gp["read_bytes"] == 1000 + 4000 and gp["write_bytes"] == 3200 + 200
    assert gp["bytes"]["update"] == [4000, 3400] and one["designs"]["max"]["gp"]["write_bytes"] == 2400
    assert paper_sentences.marks([one]) == "†" and paper_sentences.marks([row(3)]) == "*"
    results["details"]["imagenet_free_32"]["details"] = {"vgg13": one, "vgg16": row(2)}
    told = paper_sentences.legend(paper_figures.parts_of(results)).replace("\n", " ")
    assert "so many of the weights: 25 % in vgg13 on ImageNet. " in told and "The mean on ImageNet would be" in told


def test_speedups_beyond_their_limit_are_counted(results):
    parts = paper_figures.parts_of(results)
    assert paper_sentences.beyond_limits(parts) == ""
    parts["cifar10", "ws", 32]["vgg13"]["designs"]["max"]["bp"]["cycles"] = 299
    assert paper_sentences.beyond_limits(parts).startswith("In 1 of 6 rows MAX's speed-up exceeds its limit, by 0.00")


@pytest.mark.parametrize("page", [paper_figures, estimator])
def test_the_committed_pages_say_what_the_results_do(page):
    results = json.loads(page.RESULT.read_text())
    assert page.document(page.PATH.read_text(), results) == page.PATH.read_text(), f"run python -m {page.MODULE}"


def test_the_estimator_keeps_its_bounds():
    results = json.loads(estimator.RESULT.read_text())
    bounds = {name: estimator.TARGETS[name.split("_")[0]] | estimator.BYTES for name in results["details"]}
    assert len(bounds) >= 4
    for name, each in bounds.items():
        assert all(results["figures"][f"{figure}_{name}"] <= most for figure, most in each.items())
