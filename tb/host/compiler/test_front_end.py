"""The front end: graphs of known networks, islands, and refusals in one line."""

from dataclasses import replace

import pytest
import torch
from adagp.host.compiler.compiler import compile_network
from adagp.host.compiler.front_end import build_graph, graph_of
from adagp.host.compiler.islands import Island
from adagp.host.compiler.lowering import Kind, LoweringError
from adagp.host.compiler.memory_plan import PlanError
from adagp.spec.commands import CMode, Opcode
from adagp.spec.dram_part import DramPart
from adagp.spec.presets import preset
from made_modules import Made
from torch import nn
from torch.nn import functional

TINY = preset("tiny")
SHAPE, BATCH = (3, 8, 8), 4


def conv(c=3, q=3, k=3, **more):
    return nn.Conv2d(c, q, k, padding=k // 2, **more)


def graph(forward, shape=SHAPE, **parts):
    return graph_of(Made(forward, **parts), shape, BATCH, TINY)


def test_a_chain_in_a_module_is_that_of_a_sequential():
    parts = (conv(), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(48, 5))
    chain = graph_of(nn.Sequential(*parts), SHAPE, BATCH, TINY)
    captured = build_graph(nn.Sequential(*parts), (torch.zeros(BATCH, *SHAPE),), TINY)
    assert [replace(layer, name="", inputs=()) for layer in captured.layers] == [
        replace(layer, name="", inputs=()) for layer in chain.layers
    ]
    assert [layer.name for layer in captured.layers] == ["0.Conv2d", "2.MaxPool2d", "4.Linear"]


def test_a_residual_block_is_layers_alone():
    found = graph(lambda m, x: functional.relu(m.one(x) + m.two(functional.relu(m.one_more(x)))),
                  one=conv(k=1), two=conv(), one_more=conv())  # fmt: skip
    assert not found.islands and [(layer.name, layer.relu) for layer in found.layers] == [
        ("one.Conv2d", False), ("one_more.Conv2d", True), ("two.Conv2d", True),
    ]  # fmt: skip
    assert found.nodes[-1].inputs == ("one_more.Conv2d.output", "one.Conv2d.output")
    program = compile_network(found, BATCH, TINY).program
    modes = [CMode(line.command.c_mode) for line in program if line.command.opcode == Opcode.FORWARD]
    assert modes == [CMode.NONE, CMode.NONE, CMode.ADD]
    assert not [line for line in program if line.command.opcode == Opcode.AVGPOOL]


ADDITIONS = {
    "with the input": (lambda m, x: m.one(x) + x, [("one.Conv2d", 1), ("add", 2)]),
    "both twice": (lambda m, x: (lambda a, b: (a + b) * torch.sigmoid(a - b))(m.one(x), m.two(x)),
                   [("one.Conv2d", 1), ("two.Conv2d", 1), ("add", 2)]),
    "the other used too": (lambda m, x: (lambda a: m.two(a) + a)(m.one(x)), [("one.Conv2d", 1), ("two.Conv2d", 2)]),
    "after a ReLU": (lambda m, x: functional.relu(m.one(x)) + functional.relu(m.two(x)),
                     [("one.Conv2d", 1), ("two.Conv2d", 1), ("add", 2)]),
    "an island's": (lambda m, x: torch.sigmoid(m.two(x)) + m.one(x), [("two.Conv2d", 1), ("one.Conv2d", 2)]),
    "with itself": (lambda m, x: (lambda a: m.two(a + a))(m.one(x)),
                    [("one.Conv2d", 1), ("add", 2), ("two.Conv2d", 1)]),
}  # fmt: skip


@pytest.mark.parametrize("name", ADDITIONS)
def test_additions_are_part_of_a_convolution_that_nothing_else_uses(name):
    forward, expected = ADDITIONS[name]
    parts = {"one": conv()} if name == "with the input" else {"one": conv(), "two": conv()}
    found = graph(forward, **parts)
    assert [(layer.name, len(layer.inputs)) for layer in found.layers] == expected


def test_gradients_of_a_value_with_two_consumers_are_added_and_masked_at_once():
    found = graph(lambda m, x: (lambda y: (m.two(y), m.three(y)))(functional.relu(m.one(x))), one=conv(), two=conv(),
                  three=conv())  # fmt: skip
    program = compile_network(found, BATCH, TINY).program
    backward = [line.command for line in program if line.command.opcode == Opcode.BACKWARD_DATA]
    first = next(line.command for line in program if line.command.opcode == Opcode.FORWARD)
    assert [command.c_mode for command in backward] == [CMode.NONE, CMode.ADD_MASK]
    assert backward[1].c_addr == backward[0].out_addr != backward[1].out_addr
    assert backward[1].d_addr == first.out_addr and first.relu
    assert backward[0].out_id != backward[1].out_id
    assert not [line for line in program if line.command.opcode == Opcode.AVGPOOL]


def test_neighbours_on_the_host_are_one_island_unless_a_path_leaves_it():
    inside = graph(lambda m, x: m.two(torch.tanh(torch.sigmoid(m.one(x)))), one=conv(), two=conv())
    assert [island.operators for island in inside.islands] == [("sigmoid", "tanh")]
    around = graph(lambda m, x: (lambda y: y * m.two(y))(torch.sigmoid(m.one(x))), one=conv(), two=conv())
    assert [island.operators for island in around.islands] == [("sigmoid",), ("mul",)]
    assert [type(node) is Island for node in around.nodes] == [False, True, False, True]


def test_operators_of_the_machine():
    found = graph(
        lambda m, x: m.head(torch.flatten(functional.adaptive_avg_pool2d(
            functional.interpolate(functional.avg_pool2d(m.one(x), 2), scale_factor=2), 1), 1)),
        one=conv(), head=nn.Linear(3, 2),
    )  # fmt: skip
    assert not found.islands
    assert [layer.kind for layer in found.layers] == [Kind.GEMM, Kind.AVGPOOL, Kind.UPSAMPLE, Kind.AVGPOOL, Kind.GEMM]
    assert "device one.Conv2d conv" in found.describe() and len(found.describe().splitlines()) == 5


@pytest.mark.parametrize(("size", "result", "kind"), [
    ((6, 4), (3, 2), Kind.AVGPOOL), ((7, 5), (3, 2), Kind.AVGPOOL), ((6, 9), (1, 3), Kind.AVGPOOL),
    ((5, 7), (1, 1), Kind.AVGPOOL), ((4, 4), (4, 4), Kind.AVGPOOL),
    ((1, 1), (7, 7), Kind.UPSAMPLE), ((3, 2), (6, 4), Kind.UPSAMPLE),
])  # fmt: skip
def test_adaptive_pools_of_windows_alike(size, result, kind):
    """The layer's windows give what torch gives, forward and backward."""
    pool = nn.Sequential(nn.AdaptiveAvgPool2d(result))
    shape = (3, *size)
    found = graph_of(nn.Sequential(nn.Conv2d(3, 3, 1), *pool, nn.Conv2d(3, 2, 1)), shape, BATCH, TINY)
    assert not found.islands and [layer.kind for layer in found.layers] == [Kind.GEMM, kind, Kind.GEMM]
    layer, x = found.layers[1], torch.rand(2, *shape, generator=torch.Generator().manual_seed(3))
    assert (layer.oh, layer.ow) == result
    if kind is Kind.AVGPOOL:
        windows = x.unfold(2, layer.r, layer.stride).unfold(3, layer.s, layer.stride)
        assert torch.allclose(windows.sum((4, 5)) * layer.scale, pool(x))
    else:
        assert torch.equal(functional.interpolate(x, scale_factor=layer.stride), pool(x))
        assert (layer.r, layer.s) == (layer.stride, layer.stride)


@pytest.mark.parametrize(("size", "result"), [((7, 7), (4, 4)), ((6, 6), (3, 2)), ((2, 2), (3, 3)), ((1, 1), (2, 3))])
def test_adaptive_pools_of_windows_that_differ(size, result):
    network = nn.Sequential(nn.Conv2d(3, 3, 1), nn.AdaptiveAvgPool2d(result), nn.Conv2d(3, 2, 1))
    assert [island.operators for island in graph_of(network, (3, *size), BATCH, TINY).islands] == [
        ("adaptive_avg_pool2d",)
    ]


def test_a_module_called_twice_runs_on_the_host():
    found = graph(lambda m, x: m.one(m.two(m.one(x))), one=conv(), two=conv())
    assert [layer.name for layer in found.layers] == ["two.Conv2d"]
    assert [island.parameters for island in found.islands] == [("one.weight", "one.bias")] * 2


def test_rows_of_three_dimensions():
    found = graph(lambda m, x: m.two(functional.relu(m.one(x))), (6, 5), one=nn.Linear(5, 7), two=nn.Linear(7, 4))
    assert [(layer.h, layer.w, layer.c, layer.q) for layer in found.layers] == [(1, 6, 5, 7), (1, 6, 7, 4)]


def test_sums_of_too_many_products_are_cut():
    narrow = replace(TINY, acc_width=42)
    images = 2 * (narrow.max_reduction // 64)
    found = graph_of(nn.Sequential(conv()), SHAPE, images, narrow)
    commands = [line.command for line in compile_network(found, images, narrow).program]
    parts = [command for command in commands if command.opcode == Opcode.BACKWARD_WEIGHT]
    assert len(parts) == 2 and sum(part.n for part in parts) == images
    assert [part.c_mode for part in parts] == [CMode.NONE, CMode.ADD] and parts[1].c_addr == parts[0].out_addr
    assert parts[0].out_id != parts[1].out_id == parts[1].out_id and parts[1].a_addr == parts[0].n * 8 * 8 * 3 * 2


def test_memory_is_shared_only_where_it_is_too_small():
    found = graph_of(nn.Sequential(*(conv() for _ in range(12))), SHAPE, BATCH, TINY)
    config = replace(TINY, n_tensors=128)
    roomy = compile_network(found, BATCH, config)
    small = replace(config, dram=replace(config.dram, capacity_bytes=(roomy.plan.n_bytes * 4 // 5) >> 12 << 12))
    tight = compile_network(found, BATCH, small)
    overlaps = [
        (one, other) for one in tight.plan for other in tight.plan
        if one.name < other.name and one.address < other.end and other.address < one.end
    ]  # fmt: skip
    assert isinstance(small.dram, DramPart) and tight.plan.n_bytes < roomy.plan.n_bytes and overlaps
    assert all("weight" not in name and "momentum" not in name and name != "input"
               for pair in overlaps for name in (pair[0].name, pair[1].name))  # fmt: skip
    with pytest.raises(PlanError, match=r"needs .* MiB at batch 4, .*no batch would fit"):
        compile_network(found, BATCH, replace(config, dram=replace(config.dram, capacity_bytes=1 << 14)))


def _hooked(m, x):
    return m.one(x)


REFUSALS = {
    "no result": (lambda m, x: (m.one(x), 3), {"one": conv()}, "result 1 must be a tensor that the network computes"),
    "input as result": (lambda m, x: (x, m.one(x)), {"one": conv()}, "result must be a tensor that the network comp"),
    "unused": (_hooked, {"one": conv(), "two": conv()}, "nothing uses the parameter two.weight: remove it"),
    "nothing": (lambda m, x: torch.sigmoid(x), {}, "no operator that the machine can compute"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name):
    forward, parts, message = REFUSALS[name]
    with pytest.raises(LoweringError) as caught:
        graph(forward, **parts)
    assert message in str(caught.value) and len(str(caught.value).splitlines()) == 1


def test_checks_of_modules_name_the_path():
    part = nn.Sequential(conv(), nn.BatchNorm2d(3))
    part[1].register_forward_hook(lambda *_: None)
    with pytest.raises(LoweringError, match=r"^part\.1 \(BatchNorm2d\): has a forward hook"):
        graph(lambda m, x: m.part(x), part=part)
    part = nn.Sequential(conv(), conv())
    part[1].weight = nn.Parameter(part[0].weight.detach())  # the same memory by two parameters
    with pytest.raises(LoweringError, match=r"^part\.1 \(Conv2d\): shares its weight with part\.0"):
        graph(lambda m, x: m.part(x), part=part)


def test_capture_leaves_the_module_as_it_was():
    module = Made(lambda m, x: m.norm(m.one(x)), one=conv(), norm=nn.BatchNorm2d(3)).eval()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    graph_of(module, SHAPE, BATCH, TINY)
    assert not module.norm.training and not module.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())


def test_an_argument_that_is_added_is_operand_a():
    """The only operand that can be in the ring of inputs, after a ReLU became part of the sum too."""
    found = graph(
        lambda m, x: m.last(functional.relu(m.pool(x) + x)), pool=nn.AvgPool2d(3, 1, 1), last=nn.Conv2d(3, 4, 8)
    )
    (added,) = [layer for layer in found.layers if len(layer.inputs) == 2]
    assert added.relu and added.inputs == ("input", "pool.AvgPool2d.output")
    assert compile_network(found, BATCH, TINY).program
