"""Products of two values: places in memory, commands against torch, and which views cost nothing."""

import contextlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from adagp.host.compiler import dependencies
from adagp.host.compiler.compiler import compile_network
from adagp.host.compiler.front_end import graph_of
from adagp.host.compiler.joins import Join
from adagp.host.compiler.lowering import LoweringError
from adagp.host.compiler.mapping import choose_mapping
from adagp.host.compiler.matrices import Matrices, Multiplication, Places
from adagp.host.compiler.module_checks import READS_INPUT
from adagp.host.compiler.products import product_steps
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.spec.commands import Command, Opcode, Phase
from made_modules import Made
from random_programs import DESIGNS, MEMORY, MadeProgram
from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

CONFIG = DESIGNS["baseline"]
BATCH, LENGTH, WIDTH, HEADS = 2, 5, 6, 2
UNWRITTEN = 0x2AAA

# --- places --------------------------------------------------------------------------------------------


def test_places():
    heads = np.arange(2 * 5 * 3 * 4).reshape(2, 5, 3, 4).transpose(0, 2, 1, 3).reshape(6, 5, 4)
    found = Places.of(heads)
    assert found == Places((0, 4, 8, 60, 64, 68), 12) and (found.elements(5, 4) == heads).all()
    assert (
        Places.of(heads.swapaxes(1, 2)) == found.turned()
        and (found.turned().elements(4, 5) == heads.swapaxes(1, 2)).all()
    )
    assert Places.of(heads[:, :1]) == replace(found, pitch=4)  # a single row
    assert Places.of(heads[:, :, :1]) == found  # a single column


@pytest.mark.parametrize(
    "positions",
    [
        np.arange(12).reshape(1, 3, 4)[:, :, ::2], np.arange(12).reshape(1, 3, 4)[:, [0, 2, 1]],
        np.zeros((1, 2, 2), int), np.zeros((1, 0, 4), int), np.zeros((1, 4, 0), int),
        np.stack([np.arange(4).reshape(2, 2)] * 2), np.arange(12).reshape(1, 3, 4)[:, ::-1],
    ],
)  # fmt: skip
def test_no_places(positions):
    assert Places.of(positions) is None


# --- commands ------------------------------------------------------------------------------------------


class Products(MadeProgram):
    """Products of random matrices, which lie as the operands' ``layouts`` (across, gap) say."""

    def __init__(self, config, draw, sizes, layouts, count=3):
        super().__init__(config, None)
        rows, inner, columns = sizes
        shapes, places, mantissas = ((rows, inner), (inner, columns), (rows, columns)), [], {}
        for name, shape, (across, gap) in zip("abo", shapes, layouts, strict=True):
            lines, length = shape[::-1] if across else shape
            pitch = count * length + gap  # one matrix beside the other, as heads lie
            places.append(Places(tuple(range(0, count * length, length)), pitch, across))
            tensor = np.full(lines * pitch, UNWRITTEN, np.int64)
            if name != "o":
                mantissas[name] = draw.integers(-15, 16, (count, *shape))
                tensor[places[-1].elements(*shape)] = mantissas[name]
            self.data[self.address] = tensor.astype(f"<i{config.operand_bytes}")
            self.address += -(-tensor.size * config.operand_bytes // 64) * 64
        self.exponents = {1: 0, 2: 0, 3: 0}
        starts = dict(zip("abo", self.data, strict=True))
        self.out, self.places = starts["o"], places[2]
        self.expected = torch.bmm(*(torch.from_numpy(each).double() for each in mantissas.values())).numpy()
        product = Multiplication("", *(Matrices(*each) for each in zip("abo", places, strict=True)), *sizes)
        for step in product_steps(product, Phase.ALL):
            fields = {"phase_mask": int(Phase.ALL), **step.fields, **step.shape}
            for operand, name in step.operands.items():
                fields[f"{operand}_addr"] = starts[name] + step.offsets[operand] * config.operand_bytes
                fields[f"{operand}_id"] = "abo".index(name) + 1
            fields |= choose_mapping(Command(step.opcode, fields), config).fields()
            self.commands.append(Command(step.opcode, fields))


FORMS = {
    Opcode.FORWARD: (False, True, False), Opcode.BACKWARD_DATA: (False, False, False),
    Opcode.BACKWARD_WEIGHT: (True, False, False), "turned forward": (False, True, True),
    "turned data": (True, True, True), "turned weight": (True, False, True),
}  # fmt: skip
SIZES = ((5, 3, 7), (1, 1, 1), (1, 6, 5), (9, 1, 2), (13, 17, 4), (33, 21, 19))


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("simulated", [False, True])
def test_products_are_those_of_torch(form, sizes, simulated):
    """In all directions that operands and results can lie; the gaps between them stay."""
    if simulated and sizes != SIZES[-2]:
        sizes = (sizes[0], sizes[2], sizes[1])
    draw = np.random.default_rng(sum(sizes))
    print(f"seed {sum(sizes)}")
    made = Products(CONFIG, draw, sizes, [(across, int(draw.integers(3))) for across in FORMS[form]])
    assert {c.opcode for c in made.commands} == {_opcode(form)}
    device = SimDevice(CONFIG, memory_bytes=MEMORY) if simulated else GoldenDevice(CONFIG, MEMORY)
    with contextlib.closing(device):
        memory, _, counters = made.run(device, calibrate=False)
    found = np.frombuffer(memory.tobytes(), "<i2")[made.out // 2 :][: made.data[made.out].size]
    elements = made.places.elements(*made.expected.shape[1:])
    assert (found[elements] == made.expected).all() and np.abs(made.expected).max() > 0
    assert (np.delete(found, elements.ravel()) == UNWRITTEN).all()
    assert counters["macs"] == 3 * np.prod(sizes) and counters["saturations"] == 0


def _opcode(form):
    turned = {"forward": Opcode.FORWARD, "data": Opcode.BACKWARD_DATA, "weight": Opcode.BACKWARD_WEIGHT}
    return turned[form.split()[1]] if isinstance(form, str) else form


# --- networks ------------------------------------------------------------------------------------------


def network(function, config=CONFIG, **widths):
    """The graph of a function of linear layers of so many outputs."""
    parts = {name: nn.Linear(WIDTH if name == "last" else 4, width) for name, width in widths.items()}
    return graph_of(Made(function, **parts), (LENGTH, 4), BATCH, config)


def nodes(graph):
    """Products and islands, in order."""
    return [
        line.split(":")[0] for line in graph.describe().splitlines() if "product" in line or line.startswith("host")
    ]


def split_heads(x):
    return x.view(BATCH, LENGTH, HEADS, -1).transpose(1, 2)


def test_heads_are_addresses():
    """Views that choose heads make no island, in both directions; results lie as the next layer reads them."""

    def forward(self, x):
        q, (k, v) = split_heads(self.first(x)), map(split_heads, self.other(x).chunk(2, -1))
        return self.last((q @ k.transpose(-2, -1) @ v).transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))

    graph = network(forward, first=WIDTH, other=2 * WIDTH, last=3)
    assert not graph.islands, graph.describe()
    assert [product.macs for product in graph.products] == [BATCH * LENGTH * LENGTH * WIDTH] * 2
    first, second = graph.products
    assert first.places[0] == Places((0, 3, 30, 33), WIDTH) and first.places[1] == Places((0, 3, 60, 63), 12, True)
    assert second.places[1] == Places((6, 9, 66, 69), 12) and second.places[2] == Places((0, 3, 30, 33), WIDTH)


def test_attention():
    """Only softmax and what belongs to it are the host's; without the switch all is."""

    def forward(self, x):
        q, (k, v) = split_heads(self.first(x)), map(split_heads, self.other(x).chunk(2, -1))
        return self.last(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    widths = {"first": WIDTH, "other": 2 * WIDTH, "last": 3}
    assert nodes(network(forward, **widths)) == [
        "device bmm product",
        "host   mul mul softmax view",
        "device bmm_2 product",
    ]
    without = network(forward, replace(CONFIG, matmul=False), **widths)
    assert not without.products and "scaled_dot_product_attention" in without.describe()
    assert ("scaled_dot_product_attention", "without the switch matmul") in [
        (operator, why) for operator, _, why in without.islands[0].reasons
    ]


def test_what_the_host_arranges_is_said():
    """Operands that lie neither as rows nor as columns, broadcast ones, arguments, and two that are transposed."""

    def spread(self, x):
        return self.first(x) @ self.other(x)[..., ::2].transpose(1, 2)

    def broadcast(self, x):
        x = self.first(x)
        return x @ x[:1].transpose(1, 2).expand(BATCH, WIDTH, LENGTH)

    def transposed(self, x):
        return self.first(x).transpose(1, 2) @ self.other(x).transpose(1, 2)

    def argument(self, x):
        return torch.bmm(x.transpose(1, 2), self.first(x))

    spread_operand = network(spread, first=WIDTH, other=2 * WIDTH)
    assert nodes(spread_operand) == ["host   view view", "device bmm product"]
    assert [why for island in spread_operand.islands for why in island.reasons] == [
        ("view", "view", "it rearranges values for bmm, which can't read them as they are")
    ]
    assert nodes(network(broadcast, first=WIDTH)) == ["host   view view", "device bmm product"]
    assert nodes(network(transposed, first=WIDTH, other=LENGTH)) == ["host   view view", "device bmm product"]
    assert nodes(network(argument, first=WIDTH)) == ["host   transpose transpose", "device bmm product"]


@pytest.mark.parametrize("matmul", [True, False])
def test_products_of_two_matrices(matmul):
    """Without images; a view that gives several values ends what a result lies as."""

    def forward(self, x):
        y = self.first(x)
        z = torch.mm(y, y.t()).chunk(2, 1)[0]
        return z.relu() @ self.other(x)[:1]

    parts = {"first": nn.Linear(4, WIDTH), "other": nn.Linear(4, 3)}
    graph = graph_of(Made(forward, **parts), (4,), BATCH, replace(CONFIG, matmul=matmul))
    assert [product.macs for product in graph.products] == ([BATCH * WIDTH * BATCH, BATCH * 3] if matmul else [])


def test_products_without_elements_are_the_hosts():
    def forward(self, x):
        y = self.first(x)
        return y + torch.bmm(y[..., :0], y[..., :0].transpose(1, 2)).sum()

    graph = network(forward, first=WIDTH)
    assert not graph.products
    assert ("bmm", "bmm", f"{BATCH} matrices of {LENGTH}x0 and 0x{LENGTH}") in graph.islands[0].reasons


def test_an_argument_is_refused():
    """Only operand A of a command can be in the ring of inputs."""

    def forward(self, x):
        return self.first(torch.bmm(x, x.transpose(1, 2)) @ self.last(self.other(x)))

    graph = network(forward, other=WIDTH, last=4, first=3)
    assert nodes(graph)[0] == "host   bmm bmm"
    assert graph.islands[0].reasons == (("bmm", "bmm", READS_INPUT),)


def test_a_joined_operand_is_copied():
    """A product reads operands without gaps: a join takes copies of them, and of a product's result."""

    def forward(self, x):
        a, b = self.first(x), self.other(x)
        product = torch.bmm(torch.bmm(a, b.transpose(1, 2)), b)
        return torch.cat([a, product, b], -1)

    graph = network(forward, first=WIDTH, other=WIDTH)
    (join,) = (node for node in graph.nodes if isinstance(node, Join))
    assert not {name for product in graph.products for name in (*product.inputs, product.output)} & set(graph.parts)
    assert len(join.inputs) == 3 and all("copy" in name for name in join.inputs)


def test_too_many_commands_are_refused(monkeypatch):
    monkeypatch.setattr(dependencies, "LARGEST_WAIT", 5)
    graph = network(lambda self, x: torch.bmm(self.first(x), self.other(x).transpose(1, 2)), first=WIDTH, other=WIDTH)
    with pytest.raises(LoweringError, match=r": a command waits for \d+ others, 5 are the limit"):
        compile_network(graph, BATCH, CONFIG)
    monkeypatch.setattr(dependencies, "LARGEST_WAIT", 50)
    compile_network(graph, BATCH, CONFIG)


def test_calibration_stops_before_each_product():
    """Once for all commands of a product; a gradient that several write is read again."""

    def forward(self, x):
        q, k, v = self.first(x).chunk(3, -1)
        return torch.bmm(torch.bmm(q, k.transpose(1, 2)), v)

    graph = network(forward, first=3 * WIDTH)
    made = compile_network(graph, BATCH, CONFIG)
    stops = [(len(stop.reads), stop.writes) for stop in made.calibrating_stops if stop.kind == "product"]
    whole = ("bmm_2.input_gradient1",)
    scores = ("bmm_2.input_gradient0",)
    assert stops == [
        (2, ("bmm.output",)), (2, ("bmm_2.output",)), (2, scores), (2, whole), (3, whole), (3, whole),
    ]  # fmt: skip
    tracked = {line.command.track for line in made.calibrating if line.name.startswith("bmm")}
    assert tracked == {0} and {line.command.track for line in made.program if line.name.startswith("bmm")} == {1}


def test_gradients_of_parts_that_nothing_reads_are_zero():
    """A product of a part of a value: zeros are written for the rest. Overlapping parts have gradients of their own."""

    def part(self, x):
        return torch.bmm(self.first(x), self.other(x)[..., :WIDTH].transpose(1, 2))

    def overlapping(self, x):
        both = self.other(x)
        return torch.bmm(both[..., :8], both[..., 2:10].transpose(1, 2))

    made = compile_network(network(part, first=WIDTH, other=2 * WIDTH), BATCH, CONFIG)
    zeros = [c for c in (line.command for line in made.program) if c.opcode == Opcode.AVGPOOL and not c.const_mantissa]
    assert len(zeros) == 1 and zeros[0].c == 2 * WIDTH
    made = compile_network(network(overlapping, other=2 * WIDTH), BATCH, CONFIG)
    names = [name for name in made.tensors if "input_gradient" in name]
    assert names == ["bmm.input_gradient0", "bmm.input_gradient1"]
