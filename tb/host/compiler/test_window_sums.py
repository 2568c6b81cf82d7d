"""Depthwise layers' input of the predictor and their predicted gradients, against the PyTorch library."""

import numpy as np
import pytest
import torch
from adagp.algorithm.layers import predicted_weights
from adagp.algorithm.predictor import Predictor, PredictorSettings
from adagp.algorithm.reorganise import reorganise
from adagp.host.compiler.lowering import Kind
from adagp.host.compiler.window_sums import windows_table
from adagp.spec.commands import Opcode, Phase
from adagp.spec.phases import BP, GP, WARMUP
from predicted_networks import BATCH, SHAPE, Run, near, pooled


@pytest.mark.parametrize("size", [(1, 1), (1, 5), (2, 2), (3, 7), (8, 1), (9, 6), (5, 16)])
@pytest.mark.parametrize("batch", [1, 3, 8])
def test_the_table_gives_the_library_s_means(size, batch):
    """A product with the table is the reorganised output: exact if windows have a power of two elements."""
    table, exponent = windows_table(batch, *size, 16)
    assert table.shape == (batch, *size, 4) and 0 < table.max() < 1 << 15
    rng = np.random.default_rng([batch, *size])
    output = rng.integers(-99, 99, (batch, *size, 5))
    found = np.einsum("nyxk,nyxq->qk", table.astype(np.int64), output) * 2.0**exponent
    expected = reorganise(torch.from_numpy(output).permute(0, 3, 1, 2).double(), 2).flatten(1)
    assert expected.abs().max() > 0
    np.testing.assert_allclose(found, expected.numpy(), rtol=2e-4, atol=1e-5)


def test_the_library_predicts_the_same_gradients():
    """The library's predictor with the device's weights and scales, from the outputs of PyTorch's own modules."""
    run = Run("depthwise")
    for _ in range(5):
        run.batch(WARMUP)
    now, module = run.exponents(), run.module.double()
    module.load_state_dict({name: value.double() for name, value in run.network.state_dict(run.device).items()})
    names = {layer.parameters[0]: layer for layer in run.network.trained}
    weights = predicted_weights(module, set(module.parameters()))
    assert [weight.name for weight in weights] == list(names)  # the machine leaves none out
    library = Predictor({w.name: w.elements for w in weights}, PredictorSettings(), torch.Generator()).double()
    conv, fc = (run.values(f"predictor.{name}.weight", now[f"predictor.{name}.weight"]) for name in ("conv", "fc"))
    # channels are innermost in the machine's hidden values, and outermost in the library's
    hidden = fc[:, :-1].reshape(-1, 2, 2, 3).permute(0, 3, 1, 2).flatten(1)
    library.load_state_dict({
        "conv.weight": conv[:, :-1].reshape(3, 1, 3, 3), "conv.bias": conv[:, -1], "fc.weight": hidden,
        "fc.bias": fc[:, -1], "scales": torch.tensor([4.0 ** scale_of(run, layer) for layer in names.values()]),
    })  # fmt: skip
    state = run.rng.bit_generator.state
    exponents = run.batch(GP)
    run.rng.bit_generator.state = state
    images, outputs = torch.from_numpy(run.rng.random((BATCH, *SHAPE))), {}
    for weight in weights:
        weight.module.register_forward_hook(
            lambda _, args, result, weight=weight: outputs.update(
                {weight.name: weight.reorganised(args, {}, result, 2).double()}
            )
        )
    module(images)
    gradients = library.gradients(outputs)
    checked = [name for name, layer in names.items() if layer.kind is Kind.DEPTHWISE]
    assert len(checked) == 2
    for name in checked:
        layer = names[name]
        found = run.values(f"{layer.name}.predicted", exponents["predictor.prediction"])[:, :-1]
        near(found * 2.0 ** scale_of(run, layer), gradients[name], 1e-2)


def scale_of(run, layer):
    """The exponent of a layer's scale; the fraction is for the scale's own average alone."""
    return run.device.scale(run.network.tensors[f"{layer.name}.scale"].number)[0]


@pytest.mark.parametrize("model, pitches", [("joined", [7]), ("depthwise", [0, 0])])
def test_means_are_those_of_the_output_in_memory(model, pitches):
    """After the batch that calibrates and joins parts, and if the output has gaps."""
    run = Run(model)
    found = [layer for layer in run.network.layers if layer.kind is Kind.DEPTHWISE]
    assert [run.network.tensors[layer.output].pitch for layer in found] == pitches
    run.batch(WARMUP)
    for phase in (WARMUP, BP, GP, GP):
        exponents = run.batch(phase)
        for layer in found:
            means = run.values(f"{layer.name}.reorganised", exponents["predictor.reorganised"])[..., 0]
            near(means, pooled(run, layer, exponents), 1e-3)


def test_other_layers_take_no_table():
    """Nor does a batch of evaluation; a depthwise layer's sums are of its whole output, in one command."""
    run = Run("depthwise")
    commands = [(line.name, line.command) for line in run.network.program]
    sums = [(name, c) for name, c in commands if c.opcode == Opcode.BACKWARD_WEIGHT and c.phase_mask & Phase.GP]
    assert {name for name, _ in sums} == {"2.Conv2d", "5.Conv2d"} and not any(c.bias or c.predictor for _, c in sums)
    assert all(not c.phase_mask & ~Phase.TRAIN for _, c in sums)
    assert [name for name, c in commands if c.opcode == Opcode.REORGANISE and c.phase_mask & Phase.GP] == [
        "0.Conv2d", "3.Conv2d", "6.Conv2d", "9.Linear",
    ]  # fmt: skip
    assert not any(c.reorganise for _, c in commands if c.opcode != Opcode.FORWARD)
