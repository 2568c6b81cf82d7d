"""The paper's networks, in their forms for small images, become graphs of PyTorch's operators in training mode."""

import pytest
import torch
from adagp.experiments.networks.models import CNNS, PAPER_MODELS, build

SIDES = {"yolo-v3": 64, "transformer": None}


def arguments(name):
    generator = torch.Generator().manual_seed(0)
    if name == "transformer":
        return tuple(torch.randint(4, 50, (2, length), generator=generator) for length in (6, 5))
    return (torch.randn(2, 3, SIDES.get(name, 32), SIDES.get(name, 32), generator=generator),)


def check(name):
    """The graph gives the network's own results, bit for bit, with the same random numbers for dropout."""
    torch.set_num_threads(1)
    network = build(name, 60 if name == "transformer" else 10, SIDES.get(name, 32)).train()
    inputs = arguments(name)
    exported = torch.export.export(network, inputs).run_decompositions({})
    kinds = {node.op for node in exported.graph.nodes}
    assert kinds == {"placeholder", "call_function", "output"}
    results = []
    for each in (exported.module(), network):
        torch.manual_seed(0)
        results.append(each(*inputs))
    assert torch.equal(*results) and results[0].abs().sum() > 0


@pytest.mark.parametrize("name", ["transformer", "yolo-v3"])
def test_networks_of_their_own(name):
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", CNNS)
def test_networks_of_libraries(name, torchvision_imports):
    check(name)


def test_all_are_here():
    assert {*CNNS, *SIDES} == set(PAPER_MODELS)
