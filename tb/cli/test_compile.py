"""``adagp compile``, and what ``train`` and ``report`` say about operators on the host."""

import json
import re
from dataclasses import replace

import pytest
import torch
from adagp.cli.compile import STAGES
from adagp.cli.options import told
from adagp.host.compiler.compiler import compile_network
from adagp.host.compiler.costs import Share, costs, hosted, share
from adagp.host.compiler.front_end import graph_of
from adagp.host.training import models, session
from adagp.host.training.network import Network
from adagp.host.training.run_folder import RunFolder
from adagp.spec.presets import preset
from command_line import SMALL
from hand_islands import NormReLU
from torch import nn

BATCH = 8


@pytest.fixture
def with_island(monkeypatch):
    """The built-in networks have an island."""
    torch.manual_seed(2)
    module = NormReLU(1, 10, size=8)
    for place in (models, session):
        monkeypatch.setattr(place, "build_model", lambda *_: module)
    return module


def test_costs_are_those_of_the_commands(adagp, tmp_path):
    path = tmp_path / "costs.json"
    code, out, err = adagp("compile", "mlp", "--batch", 4, "--preset", "tiny", "--json", path)
    assert code == 0, err
    found = json.loads(path.read_text())
    rows = {row["name"]: row for row in found["operators"]}
    assert list(rows) == ["1.Linear", "3.Linear", "5.Linear"] and all(row["where"] == "device" for row in rows.values())
    first, second = rows["1.Linear"], rows["3.Linear"]
    assert first["operators"] == ["forward", "backward_weight", "update"]
    assert first["macs"] == 4 * 128 * (64 + 65)  # forward; gradients of weights and biases
    assert second["macs"] == 4 * 128 * (128 + 128 + 129)
    assert all(row["useful_macs"] == row["macs"] for row in rows.values())  # nothing is padded
    weights = 128 * 129
    forward, data = 2 * (4 * 128 * 2 + weights), 2 * (4 * 128 * 3 + weights)  # the latter with the mask of the ReLU
    assert second["bytes"] == forward + data + 2 * (4 * 128 * 2 + weights) + (2 + 2 + 2 + 4) * weights
    assert found["total"] == {
        column: sum(row[column] for row in rows.values()) for column in ("useful_macs", "macs", "bytes", "cycles")
    }
    assert all(row["cycles"] > row["macs"] / preset("tiny").n_pes for row in rows.values())
    assert (found["device_share_of_macs"], found["device_share_of_bytes"], found["host_operators"]) == (1, 1, {})
    assert "total" in out and "device" in out and "host" not in out
    of_peak = found["total"]["macs"] / found["total"]["cycles"] / preset("tiny").n_pes
    assert found["useful_utilisation"] == found["utilisation"] == pytest.approx(of_peak)


def test_commands_of_gp_batches_alone_do_not_count(adagp, tmp_path):
    found = []
    for more in ((), ("--variant", "low", "--gradient-source", "zero")):
        assert adagp("compile", "mlp", "--preset", "tiny", *more, "--json", tmp_path / "costs.json")[0] == 0
        found.append(json.loads((tmp_path / "costs.json").read_text())["total"])
    assert found[0] == found[1]


def test_stages(adagp):
    code, out, _ = adagp("compile", "mlp", *(word for name in STAGES for word in ("--stage", name)))
    shown = ("1: linear = linear", "device 1.Linear conv", "device 1.Linear: with 2.ReLU", "no two values share any",
             "  stays  ", "all before it", "version")  # fmt: skip
    assert code == 0 and sorted(shown, key=out.index) == list(shown)
    code, _, err = adagp("compile", "mlp", "--stage", "all")
    assert code == 2 and "stage = 'all' must be one of " in err


def test_stages_of_a_network_with_an_island(adagp, with_island):
    code, out, _ = adagp("compile", "--batch", BATCH, "--preset", "tiny", "--stage", "graph", "--stage", "capture")
    lines = [line.strip() for line in out.splitlines()]
    assert code == 0
    assert "device first.Conv2d conv: [8, 1, 8, 8] -> [8, 6, 8, 8], 27648 MACs, 7168 bytes" in lines
    (island,) = [line for line in lines if line.startswith("host   norm.BatchNorm2d")]
    assert island.endswith("[8, 6, 8, 8] -> [8, 6, 8, 8], 0 MACs, 12288 bytes")
    (first,) = [line for line in lines if line.startswith("first: ")]
    assert first.endswith("= conv2d(x, first.weight, first.bias) -> [8, 6, 8, 8]")
    assert lines.index(first) > lines.index(island)  # as the stages were asked for


def test_the_drawing(adagp, tmp_path, with_island):
    path = tmp_path / "graph.dot"
    assert adagp("compile", "--batch", BATCH, "--preset", "tiny", "--dot", path)[0] == 0
    text = path.read_text()
    boxes = re.findall(r'^  "([^"]+)" \[(?:shape=\w+, )?fillcolor=(\w+), label="([^"]+)"\];$', text, re.MULTILINE)
    assert [(name, colour) for name, colour, _ in boxes] == [
        ("input", "white"), ("first.Conv2d", "lightblue"), ("norm.BatchNorm2d", "orange"), ("relu", "lightblue"),
        ("second.Conv2d", "lightblue"), ("result", "white"),
    ]  # fmt: skip
    labels = {name: label for name, _, label in boxes}
    assert labels["first.Conv2d"] == r"first.Conv2d\nconv 3x3" and labels["relu"] == r"relu\nrelu"
    assert (
        labels["norm.BatchNorm2d"].startswith(r"norm.BatchNorm2d\nhost:\n")
        and "batch_norm" in labels["norm.BatchNorm2d"]
    )
    arrows = re.findall(r'^  "([^"]+)" -> "([^"]+)" \[label="([^"]+)"\];$', text, re.MULTILINE)
    assert arrows == [
        ("input", "first.Conv2d", "8x1x8x8"), ("first.Conv2d", "norm.BatchNorm2d", "8x6x8x8"),
        ("norm.BatchNorm2d", "relu", "8x6x8x8"), ("relu", "second.Conv2d", "8x6x8x8"),
        ("second.Conv2d", "result", "8x10"),
    ]  # fmt: skip
    assert text.startswith("digraph network {\n") and text.endswith("}\n")
    assert len(boxes) + len(arrows) + 3 == len(text.splitlines())  # each line is one of these


def test_a_mistake_in_a_network_is_one_line(adagp, tmp_path):
    path = tmp_path / "net.py"
    path.write_text(
        "from torch import nn\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.conv = nn.Conv2d(1, 2, 3)\n\n    def forward(self, x):\n"
        "        return self.conv(x) if x.mean() > 0 else x\n\ndef build(shape, n_classes):\n"
        "    return nn.Sequential(Net())\n"
    )
    code, out, err = adagp("compile", f"{path}:build")
    assert (code, out) == (2, "")
    assert err == "error: 0: its control flow or a shape depends on data, and both must be fixed\n"


def test_layers_that_are_unpredicted_are_said(adagp, tmp_path):
    (tmp_path / "wide.py").write_text(
        "from torch import nn\ndef wide(shape, n_classes):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, 130), nn.ReLU(), nn.Linear(130, 10))\n"
    )
    model, path = f"{tmp_path / 'wide.py'}:wide", tmp_path / "costs.json"
    code, out, err = adagp("compile", model, "--preset", "tiny", "--variant", "max", "--json", path)
    assert code == 0, err
    why = "130 filters, the predictor of tiny is for 128"
    line = f"BP batches alone, and unchanged by GP batches, as biases are: 1.Linear ({why})"
    assert line in out
    assert json.loads(path.read_text())["unpredicted"] == {"1.Linear": why}
    small = ("--epochs", 1, "--batch", 4, "--train-images", 4, "--test-images", 4, "--output", tmp_path / "run")
    code, _, err = adagp(
        "train", "--device", "golden", "--model", model, "--preset", "tiny", "--variant", "max", *small
    )
    assert code == 0 and line in err
    code, out, _ = adagp("compile", model, "--preset", "tiny", "--json", path)
    assert code == 0 and "alone" not in out and json.loads(path.read_text())["unpredicted"] == {}


def test_batch_norms_and_the_host_s_parameters_are_said_to_stay():
    norms = [part for _ in range(6) for part in (nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4))]
    module = nn.Sequential(nn.Conv2d(1, 4, 3), *norms, nn.LayerNorm(6), nn.Flatten(), nn.Linear(144, 10))
    config = replace(preset("ecp5"), batch_norm=True, variant="low")
    graph = graph_of(module, (1, 8, 8), BATCH, config)
    for source, kept in (("predicted", True), ("mean", True), ("skip", False), (None, False)):
        compiled = compile_network(graph, BATCH, config, source=source)
        assert len(compiled.unpredicted) == 7 * kept
        assert told(compiled) == kept * (
            "trained with true gradients in BP batches alone, and unchanged by GP batches, as biases are: 2.BatchNorm2d"
            " and 5 more (batch norm's gamma and beta, which no predictor is for); 13.LayerNorm (the host's parameters,"
            " which no predictor is for)"
        )


def test_a_norm_that_the_hardware_could_have_has_its_reason():
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4, affine=False), nn.Flatten(), nn.Linear(144, 10))
    (island,) = graph_of(module, (1, 8, 8), BATCH, replace(preset("ecp5"), batch_norm=True)).islands
    assert island.reasons == (("batch_norm", "1.BatchNorm2d", "it has no weight and bias (affine)"),)


def test_each_operator_of_the_host_has_its_reason(adagp, tmp_path):
    (tmp_path / "hosted.py").write_text(
        "from torch import nn\ndef hosted(shape, n_classes):\n"
        "    norms = [part for _ in range(5) for part in (nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8))]\n"
        "    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.Sigmoid(), nn.Conv2d(8, 8, 1, dilation=2),\n"
        "        nn.Conv2d(8, 8, 1, groups=8), *norms, nn.ReLU6(), nn.Conv2d(8, 8, 1), nn.ReLU(), nn.LayerNorm(8),\n"
        "        nn.Flatten(), nn.Linear(512, n_classes))\n"
    )
    path = tmp_path / "costs.json"
    code, out, err = adagp("compile", f"{tmp_path / 'hosted.py'}:hosted", "--preset", "ecp5", "--json", path)
    assert code == 0, err
    lines = [line[2:] for line in out.splitlines() if line.startswith("  ") and " in " in line]
    assert lines == [
        "sigmoid in 1.Sigmoid: the machine has no such operator",
        "conv2d in 2.Conv2d: dilation = [2, 2], it must be 1",
        "conv2d in 3.Conv2d: groups = 8, without the switch depthwise",
        "batch_norm in 5.BatchNorm2d and 4 more: without the switch batch_norm",
        "hardtanh in 14.ReLU6: a bound or a slope, without the switch clamps",
        "layer_norm in 17.LayerNorm: the machine has no such operator",
    ]
    (_, second, *_) = json.loads(path.read_text())["host_reasons"]["1.Sigmoid"]
    assert second == ["conv2d", "2.Conv2d", "dilation = [2, 2], it must be 1"]


@pytest.mark.parametrize("command", ["compile", "disasm"])
def test_outputs_are_those_of_the_classes(adagp, tmp_path, command):
    """A network with several results is no classifier, and compiled all the same."""
    (tmp_path / "own.py").write_text(
        "from torch import nn\ndef fixed(shape, n_classes):\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 7))\n"
        "class Two(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.one, self.other = nn.Linear(64, 7), nn.Linear(64, 2)\n"
        "    def forward(self, x):\n        return self.one(x.flatten(1)), self.other(x.flatten(1))\n"
        "def two(shape, n_classes):\n    return Two()\n"
    )

    def outcome(function, *more):
        given = [f"{tmp_path / 'own.py'}:{function}"]
        return adagp(command, *(given if command == "compile" else ["--model", *given]), "--preset", "tiny", *more)

    code, _, err = outcome("fixed")
    assert code == 2 and err.strip().endswith("own.py:fixed has 7 outputs, --classes says 10")
    assert outcome("fixed", "--classes", 7)[0] == outcome("two")[0] == 0


def test_the_share_of_the_host(with_island):
    network = Network(with_island, (1, 8, 8), BATCH, preset("tiny"))
    found = costs(network.compiled, with_island.state_dict())
    device, host = sum(cost.bytes for cost in found[:3]), found[3].bytes
    assert [cost.where for cost in found] == ["device", "device", "device", "host"]
    assert host == 4 * BATCH * 6 * 8 * 8 * 2 and found[3].macs == 0  # value, result and their gradients
    assert share(found).device_share_of_bytes == device / (device + host) and share(found).device_share_of_macs == 1


def test_useful_products_are_as_many_wherever_they_are():
    inner = nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False)
    module, useful = nn.Sequential(nn.Conv2d(4, 4, 1), inner, nn.ReLU(), nn.Conv2d(4, 8, 1)), []
    for depthwise in (False, True):
        network = Network(module, (4, 8, 8), BATCH, replace(preset("tiny"), depthwise=depthwise))
        found = costs(network.compiled, module.state_dict())
        useful.append(sum(cost.useful_macs for cost in found))
        assert sum(cost.where == "host" for cost in found) == 1 - depthwise
        assert all(0 <= cost.useful_macs <= cost.macs for cost in found)
    assert useful[0] == useful[1] > 0


def test_bytes_of_groups_leave_out_those_of_others():
    bytes_of = {}
    for groups in (1, 4):
        module = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Conv2d(8, 8, 1, groups=groups, bias=False))
        network = Network(module, (1, 8, 8), BATCH, preset("tiny"))
        bytes_of[groups] = next(c.bytes for c in costs(network.compiled, module.state_dict()) if c.name == "1.Conv2d")
    assert 0 < bytes_of[4] < bytes_of[1]  # as many values, and a quarter of the weights


def test_many_islands_are_counted():
    few = {f"norm{number}.BatchNorm2d": ["batch_norm"] for number in range(4)}
    assert hosted(few).startswith("norm0.BatchNorm2d (batch_norm), norm1") and hosted({}) == ""
    many = few | {"end": ["dropout", "batch_norm", "mul"]}
    assert hosted(many) == "5 batch_norm, 1 dropout, 1 mul"
    assert str(Share(0.5, 0.25, many)) == f"on the host: {hosted(many)}; 50.0 % of MACs, 75.0 % of bytes"


def test_operators_on_the_host_are_said_and_strict_refuses_them(adagp, tmp_path, with_island):
    for command in (("compile", "--batch", BATCH, "--preset", "tiny"), ("train", "--device", "golden", *SMALL)):
        more = ("-o", tmp_path / "strict") if command[0] == "train" else ()
        code, out, err = adagp(*command, *more, "--strict")
        assert code == 2 and not out and err.count("\n") == 1
        assert "--strict: norm" in err and "batch_norm" in err and "would run on the host" in err
    assert not list(tmp_path.iterdir())
    code, out, _ = adagp("compile", "--batch", BATCH, "--preset", "tiny")
    assert code == 0 and "on the host: norm" in out
    run = tmp_path / "run"
    code, _, err = adagp("train", "--device", "golden", *SMALL, "-o", run)
    assert code == 0 and "on the host: norm" in err and "; 0.0 % of MACs, " in err
    assert "GP batches" not in err
    summary = RunFolder(run).summary
    ((name, operators),) = summary["host_operators"].items()
    assert name.startswith("norm") and any("batch_norm" in each for each in operators)
    assert 0 < summary["device_share_of_bytes"] < 1 == summary["device_share_of_macs"]
    assert 0 < summary["island_seconds"] <= summary["host_seconds"]  # rounded
    path = tmp_path / "report.json"
    code, out, _ = adagp("report", run, "--json", path)
    assert code == 0 and f"on the host: {name} ({' '.join(operators)}); " in out
    assert json.loads(path.read_text())["host_operators"] == summary["host_operators"]
    state = torch.load(run / "weights.pt")
    NormReLU(1, 10, size=8).load_state_dict(state)
    assert state["norm.num_batches_tracked"] == summary["settings"]["epochs"] * (
        summary["settings"]["train_images"] // 8
    )
    code, out, _ = adagp("evaluate", run)
    assert code == 0 and f"accuracy {100 * summary['test_accuracy']:.2f} %" in out


def test_gp_batches_wait_for_the_host_and_it_is_said(adagp, tmp_path, with_island):
    code, _, err = adagp("train", "--device", "golden", *SMALL, "--variant", "low", "-o", tmp_path / "run")
    assert code == 0 and "in GP batches the program waits for the host" in err


def test_switches_take_operators_from_the_host(adagp, with_island):
    found = []
    for switches in ("", "depthwise,clamps", "batch_norm", "all"):
        code, out, err = adagp("compile", "--batch", BATCH, "--preset", "tiny", "--switches", switches)
        assert code == 0, err
        found.append("host: batch_norm" in out)
    assert found == [True, True, False, False]
    assert adagp("compile", "--batch", BATCH, "--preset", "tiny", "--strict")[0] == 2
    assert adagp("compile", "--batch", BATCH, "--preset", "tiny", "--strict", "--switches", "all")[0] == 0
    code, out, err = adagp("compile", "--switches", "batch_norm,relu")
    assert (code, out) == (2, "")
    assert "'relu' must be one of depthwise, batch_norm, clamps, matmul, dropout, or all alone" in err
