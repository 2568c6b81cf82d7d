"""A layer whose filters are cut in GP, so that the first are updated while the others are computed: the same bits."""

from dataclasses import replace
from functools import cache

import pytest
from adagp.host.compiler import filter_split
from adagp.host.compiler.predictor import Predictor
from adagp.host.training.models import build_model
from adagp.host.training.network import Network
from adagp.spec.commands import Opcode, Phase
from adagp.spec.presets import preset
from scheduled_runs import NETWORKS, SEED, Run, differences, golden, settings, simulated

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

PARTS = {("narrow", "low"): [1, 2, 2], ("narrow", "max"): [2, 3, 2], ("linear", "max"): [5, 3, 2]}
"""Updates of each layer in a GP batch, for two networks on two designs."""


def updates(network):
    """Filters and first filter of the parts of each layer, as its updates of GP say."""
    weights = {network.tensors[f"{layer.name}.weight"].address: layer for layer in network.trained}
    found = {layer.name: [] for layer in network.trained}
    for line in network.program:
        command = line.command
        if command.opcode == Opcode.UPDATE and command.phase_mask & Phase.GP:
            base = max(address for address in weights if address <= command.b_addr)
            layer = weights[base]
            row = layer.filter_elements
            assert command.count % row == 0 and (command.b_addr - base) % (2 * row) == 0
            found[layer.name].append(((command.b_addr - base) // (2 * row), command.count // row))
    return found


def run(name, device, cut, **options):
    with pytest.MonkeyPatch.context() as patch:
        if cut:
            patch.setattr(filter_split, "LEAST_CUT", 1)
        return Run(name, device, settings(name, **options))


@pytest.mark.parametrize(
    ("variant", "third", "last"), [("low", [432, 80], [192, 128, 96, 64, 32]), ("max", [384, 96, 32], [64] * 8)]
)
def test_the_last_large_layers_are_cut(variant, third, last):
    """VGG13's last three convolutions; the predictor's other sources, and what is small, aren't."""
    config = replace(preset("paper"), variant=variant)
    layers = Network(build_model("vgg13", (3, 32, 32), 10, 0), (3, 32, 32), 32, config, source="predicted").layers
    found = {}
    for source in ("predicted", "random"):
        predictor = Predictor(layers, 32, config, source)
        found[source] = {layer.name: [part.filters for part in predictor.parts(layer)] for layer in predictor.layers}
        for layer in predictor.layers:
            ends = [0, *(part.first + part.filters for part in predictor.parts(layer))]
            assert ends[:-1] == [part.first for part in predictor.parts(layer)] and ends[-1] == layer.q
    assert {name: parts for name, parts in found["predicted"].items() if len(parts) > 1} == {
        "17.Conv2d": third, "20.Conv2d": last, "22.Conv2d": last,
    }  # fmt: skip
    assert all(len(parts) == 1 for parts in found["random"].values())


@cache
def on_golden(name, variant, cut):
    trained = run(name, golden(variant), cut, variant=variant)
    return trained, trained.go()


@pytest.mark.parametrize(("name", "variant"), PARTS)
def test_the_parts_of_a_layer_are_the_whole(name, variant):
    (whole, _), (cut, _) = on_golden(name, variant, False), on_golden(name, variant, True)
    assert all(len(parts) == 1 for parts in updates(whole.network).values())
    parts = updates(cut.network)
    assert [len(found) for found in parts.values()] == PARTS[name, variant]
    for layer in cut.network.trained:
        ends = [0, *(first + filters for first, filters in parts[layer.name])]
        assert ends[:-1] == [first for first, _ in parts[layer.name]] and ends[-1] == layer.q


@pytest.mark.parametrize(("name", "variant"), PARTS)
def test_parts_give_the_bits_of_the_whole(name, variant):
    (_, whole), (_, cut) = on_golden(name, variant, False), on_golden(name, variant, True)
    assert {what for _, what in differences(whole, cut)} == {"counters"}
    for one, other in zip(whole, cut, strict=True):
        assert one["counters"][:2] == other["counters"][:2] and one["counters"][0] > 0
    assert whole[-1]["counters"][2] < cut[-1]["counters"][2]  # commands
    assert whole[-1]["batches"][2] > 0


@pytest.mark.parametrize(("name", "variant"), PARTS)
def test_designs_equal_golden_with_parts(name, variant):
    device = simulated(variant, stall=0.2, seed=SEED)
    trained = run(name, device, True, variant=variant)
    found = trained.go()
    device.close()
    assert differences(on_golden(name, variant, True)[1], found) == []
    assert name in NETWORKS and found[-1]["batches"][2] > 0
