"""Lowering and compiling: layers of known networks, programs whose waits suffice, refusals."""

import pytest
import torch
from adagp.host.compiler.compiler import compile_network
from adagp.host.compiler.front_end import graph_of
from adagp.host.compiler.ir import BACKPROPAGATION
from adagp.host.compiler.lowering import Kind, LoweringError, lower
from adagp.host.compiler.memory_plan import PlanError
from adagp.host.training.models import MODELS
from adagp.spec.commands import CMode, Opcode, Phase
from adagp.spec.opcodes import COMPUTE
from adagp.spec.presets import preset
from torch import nn

TINY = preset("tiny")
UPDATE_ONLY = Opcode.UPDATE

SMALL = nn.Sequential(
    nn.Conv2d(2, 5, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Sequential(nn.Conv2d(5, 6, (3, 2), padding=(1, 0), bias=False), nn.AvgPool2d(3, 2, padding=1), nn.ReLU()),
    nn.Flatten(), nn.Linear(24, 8), nn.ReLU(), nn.Linear(8, 3),
)  # fmt: skip


def compiled(network=SMALL, shape=(2, 8, 8), batch=6, config=TINY, **options):
    return compile_network(graph_of(network, shape, batch, config), batch, config, **options)


def commands(program):
    return [line.command for line in program]


# --- layers -----------------------------------------------------------------------------------


def test_layers_of_a_small_network():
    layers = lower(SMALL, (2, 8, 8), TINY)
    got = [(layer.kind, layer.name, layer.c, layer.h, layer.w, layer.q, layer.oh, layer.ow) for layer in layers]
    assert got == [
        (Kind.GEMM, "0.Conv2d", 2, 8, 8, 5, 8, 8),
        (Kind.MAXPOOL, "2.MaxPool2d", 5, 8, 8, 5, 4, 4),
        (Kind.GEMM, "3.0.Conv2d", 5, 4, 4, 6, 4, 3),
        (Kind.AVGPOOL, "3.1.AvgPool2d", 6, 4, 3, 6, 2, 2),
        (Kind.GEMM, "5.Linear", 6, 2, 2, 8, 1, 1),
        (Kind.GEMM, "7.Linear", 8, 1, 1, 3, 1, 1),
    ]
    assert [layer.relu for layer in layers] == [True, False, False, True, True, False]
    assert [(layer.r, layer.s) for layer in layers] == [(3, 3), (2, 2), (3, 2), (3, 3), (2, 2), (1, 1)]
    assert layers[2].parameters == ("3.0.weight", "") and layers[4].parameters == ("5.weight", "5.bias")
    assert layers[3].scale == pytest.approx(1 / 9)


@pytest.mark.parametrize("stride", (1, 2, 3))
@pytest.mark.parametrize("kind", ("conv", "max", "average"))
def test_output_shapes_are_torchs(kind, stride):
    checked = 0
    for kernel, padding in ((1, 0), ((2, 3), 1), (3, (0, 1)), ((5, 4), 2)):
        module = {
            "conv": lambda k, p: nn.Conv2d(3, 4, k, stride, p),
            "max": lambda k, p: nn.Sequential(nn.MaxPool2d(k, stride, p), nn.Conv2d(3, 1, 1)),
            "average": lambda k, p: nn.Sequential(nn.AvgPool2d(k, stride, p), nn.Conv2d(3, 1, 1)),
        }[kind](kernel, padding)
        network = nn.Sequential(module)
        last = lower(network, (3, 11, 9), TINY)[-1]
        assert network(torch.zeros(1, 3, 11, 9)).shape[1:] == (last.q, last.oh, last.ow)
        checked += 1
    assert checked == 4


@pytest.mark.parametrize("name", MODELS)
def test_every_named_model_compiles(name):
    shape = (3, 32, 32) if "vgg" in name else (1, 28, 28) if name == "lenet" else (1, 8, 8)
    network = MODELS[name](shape, 10)
    config = preset("paper")
    program = compiled(network, shape, 8, config).program
    assert program[0].command.opcode == Opcode.HEADER and program[len(program) - 1].command.opcode == Opcode.END
    for line in program:
        assert len(line.command.encode()) == 32


# --- programs ---------------------------------------------------------------------------------


def test_program_of_a_small_network():
    program = compiled().program
    text = [(line.command.opcode.name, line.name) for line in program]
    assert text == [
        ("HEADER", ""), ("FORWARD", "0.Conv2d"), ("MAXPOOL", "2.MaxPool2d"), ("FORWARD", "3.0.Conv2d"),
        ("AVGPOOL", "3.1.AvgPool2d"), ("FORWARD", "5.Linear"), ("FORWARD", "7.Linear"), ("HOST", ""),
        ("BACKWARD_DATA", "7.Linear"), ("BACKWARD_WEIGHT", "7.Linear"), ("UPDATE", "7.Linear"),
        ("BACKWARD_DATA", "5.Linear"), ("BACKWARD_WEIGHT", "5.Linear"), ("UPDATE", "5.Linear"),
        ("AVGPOOL_BACKWARD", "3.1.AvgPool2d"),
        ("BACKWARD_DATA", "3.0.Conv2d"), ("BACKWARD_WEIGHT", "3.0.Conv2d"), ("UPDATE", "3.0.Conv2d"),
        ("MAXPOOL_BACKWARD", "2.MaxPool2d"), ("BACKWARD_WEIGHT", "0.Conv2d"), ("UPDATE", "0.Conv2d"),
        ("COMMIT", ""), ("END", ""),
    ]  # fmt: skip


def test_phases():
    for command in commands(compiled().program):
        expected = Phase.ALL
        if command.opcode in (Opcode.BACKWARD_DATA, Opcode.BACKWARD_WEIGHT, Opcode.UPDATE, Opcode.MAXPOOL_BACKWARD,
                              Opcode.AVGPOOL_BACKWARD):  # fmt: skip
            expected = BACKPROPAGATION
        if command.opcode == Opcode.COMMIT:
            expected = Phase.TRAIN
        assert command.phase_mask == expected


def test_masks_stand_where_the_gradient_of_a_relus_output_is_made():
    result = compiled()
    masks = {
        line.name: line.command.c_addr for line in result.program if CMode(line.command.c_mode) is CMode.MASK
    }  # fmt: skip
    assert masks == {
        "7.Linear": result.tensors["5.Linear.output"].address,
        "5.Linear": result.tensors["3.1.AvgPool2d.output"].address,
        "2.MaxPool2d": result.tensors["0.Conv2d.output"].address,
    }


def test_a_pooled_maximum_keeps_exponent_and_number():
    result = compiled()
    maxpool = next(c for c in commands(result.program) if c.opcode == Opcode.MAXPOOL)
    assert maxpool.out_id == maxpool.a_id == result.tensors["0.Conv2d.output"].number
    assert not maxpool.track and maxpool.b_addr == result.tensors["2.MaxPool2d.index"].address
    numbers = [t.number for t in result.tensors.values() if t.number >= 0 and "MaxPool2d.output" not in t.name]
    assert len(numbers) == len(set(numbers)) > 0


def test_written_tensors_lie_in_regions_and_read_only_ones_outside():
    result = compiled(ring_entries=3)
    regions = [result.plan.region("state"), result.plan.region("activations")]
    written = set()
    for command in commands(result.program):
        if command.opcode in COMPUTE or command.opcode == UPDATE_ONLY:
            written.add(command.out_addr)
        if command.opcode == UPDATE_ONLY:
            written |= {command.b_addr, command.c_addr}
        if command.opcode == Opcode.MAXPOOL:
            written.add(command.b_addr)
    for tensor in result.tensors.values():
        inside = any(start <= tensor.address and tensor.address + tensor.n_bytes <= end for start, end in regions)
        assert inside == (tensor.name not in ("input", "loss.gradient"))
        assert (tensor.address in written) == inside
    assert result.plan["input"].n_bytes == 3 * result.entry_bytes >= 3 * result.tensors["input"].n_bytes


def test_gradients_before_the_first_weights_are_not_computed():
    network = nn.Sequential(nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(2, 2, 1))
    result = compiled(network, (2, 4, 4), 2)
    backward = [c.opcode for c in commands(result.program) if c.phase_mask == BACKPROPAGATION]
    assert backward == [Opcode.BACKWARD_WEIGHT, Opcode.UPDATE]
    relu, *_ = (c for c in commands(result.program) if c.opcode == Opcode.AVGPOOL)
    assert (relu.const_mantissa, relu.const_exponent, relu.relu, relu.ring) == (1, 0, 1, 1)
    assert relu.out_id == relu.a_id and not relu.track


# --- waits ------------------------------------------------------------------------------------


def touched(result, command):
    """(reads, writes) of a command as sets of tensor names, by the meaning of its opcode."""
    names = {t.address: t.name for t in result.tensors.values()}
    a = names[command.a_addr] if not command.ring else "input"
    b, c, out = names.get(command.b_addr), names.get(command.c_addr), names.get(command.out_addr)
    if command.opcode == Opcode.UPDATE:
        return {a, b, c, out}, {b, c, out}
    reads, writes = {a}, {out}
    if command.opcode == Opcode.MAXPOOL:
        writes.add(b)
    elif command.opcode not in (Opcode.AVGPOOL, Opcode.AVGPOOL_BACKWARD):
        reads.add(b)
    if command.c_mode:
        reads.add(c)
    return reads, writes


def executed(result, phase):
    return [
        c for c in commands(result.program) if c.phase_mask & phase and c.opcode in range(Opcode.FORWARD, Opcode.COMMIT)
    ]


@pytest.mark.parametrize("phase", (Phase.WARMUP, Phase.BP, Phase.GP, Phase.EVAL))
@pytest.mark.parametrize(
    "network, shape", ((SMALL, (2, 8, 8)), (MODELS["lenet"]((1, 28, 28), 10), (1, 28, 28))), ids=("small", "lenet")
)
def test_waits_suffice_and_are_the_least(network, shape, phase):
    result = compiled(network, shape, 4)
    done = {"wait_main": [], "wait_update": []}
    pairs = 0
    for command in executed(result, phase):
        reads, writes = touched(result, command)
        for queue, earlier in done.items():
            conflicts = [
                place
                for place, (e_reads, e_writes) in enumerate(earlier, 1)
                if e_writes & (reads | writes) or e_reads & writes
            ]
            assert getattr(command, queue) == max(conflicts, default=0), (command, queue)
            pairs += len(conflicts)
        done["wait_update" if command.opcode == Opcode.UPDATE else "wait_main"].append((reads, writes))
    assert pairs > 0


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize("network, shape, message", (
    (nn.Linear(2, 2), (2,), "a network must be a torch.nn.Sequential, not Linear"),
    (nn.Sequential(nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)), (2, 4, 4),
     r"1 \(BatchNorm2d\): not supported yet: fold it into the layer before or remove it; supported are Conv2d, Linear"),
    (nn.Sequential(nn.Conv2d(2, 2, 1), nn.Sigmoid()), (2, 4, 4), r"1 \(Sigmoid\): not supported; supported are"),
    (nn.Sequential(nn.Conv2d(2, 2, 1, groups=2)), (2, 4, 4), r"0 \(Conv2d\): groups = 2, without the switch depthwise"),
    (nn.Sequential(nn.Conv2d(514, 514, 1, groups=257)), (514, 4, 4), r"0 \(Conv2d\): groups = 257, more than 256"),
    (nn.Sequential(nn.Conv2d(2, 2, 2, dilation=2)), (2, 4, 4), "dilation = .*, only 1"),
    (nn.Sequential(nn.Conv2d(2, 2, 2, stride=(1, 2))), (2, 4, 4), "the same in both directions"),
    (nn.Sequential(nn.Conv2d(2, 2, 2, padding=2)), (2, 4, 4), "padding 2,2 must be below the kernel's 2x2"),
    (nn.Sequential(nn.Conv2d(2, 2, 2, padding="same")), (2, 4, 4), "'same' needs an odd kernel, not 2x2"),
    (nn.Sequential(nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect")), (2, 4, 4), "padding_mode = 'reflect'"),
    (nn.Sequential(nn.Conv2d(3, 2, 1)), (2, 4, 4), "takes 3 channels, but 2 arrive"),
    (nn.Sequential(nn.Conv2d(2, 2, 5)), (2, 4, 4), "a kernel of 5x5 doesn't fit an input of 4x4"),
    (nn.Sequential(nn.Linear(4, 2)), (2, 4, 4), "needs Flatten before it, the value is 2x4x4"),
    (nn.Sequential(nn.Flatten(), nn.Linear(31, 2)), (2, 4, 4), "takes 31 features, but 32 arrive"),
    (nn.Sequential(nn.Flatten(2)), (2, 4, 4), "only all but the batch"),
    (nn.Sequential(nn.Conv2d(2, 2, 1), nn.MaxPool2d(2, ceil_mode=True)), (2, 5, 5), "ceil_mode"),
    (nn.Sequential(nn.Flatten(), nn.MaxPool2d(2)), (2, 4, 4), "a flattened one arrives"),
    (nn.Sequential(nn.MaxPool2d(2)), (2, 4, 4), "no layer with weights"),
    (nn.Sequential(nn.Linear(2, 2)), (2, 2), "an input shape must be"),
))  # fmt: skip
def test_refusals(network, shape, message):
    with pytest.raises(LoweringError, match=message):
        lower(network, shape, TINY)


def test_what_a_sequential_does_not_use_is_refused():
    layer, chain, inner = (nn.Sequential(nn.Linear(2, 2)) for _ in range(3))
    layer[0].extra, chain.more = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))
    inner[0].more = nn.Linear(2, 2)
    for network, message in (
        (layer, r"^0 \(Linear\): nothing uses its parameter extra: remove it$"),
        (chain, r"^the network \(Sequential\): nothing uses its parameter more: remove it$"),
        (inner, r"^0 \(Linear\): nothing calls its module more: remove it$"),
    ):
        with pytest.raises(LoweringError, match=message):
            lower(network, (2,), TINY)


def test_too_much_for_the_tables_or_the_memory():
    deep = nn.Sequential(*(nn.Linear(4, 4) for _ in range(13)))
    with pytest.raises(LoweringError, match="66 tensors need exponents, tiny has room for 64"):
        compiled(deep, (4,), 1)
    with pytest.raises(PlanError, match=r"network needs .* MiB at batch 40000, ddr3-800-x16 has 512.0 MiB"):
        compiled(nn.Sequential(nn.Linear(4096, 4096)), (4096,), 40000)
