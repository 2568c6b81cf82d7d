"""Sources of gradients: what each adds to a batch, and that none changes the steps that it is handed."""

from copy import deepcopy
from dataclasses import replace

import pytest
from adagp.host.compiler.batch import batch_steps
from adagp.host.compiler.gradient_source import TrueGradients
from adagp.host.compiler.ir import Step
from adagp.host.compiler.lowering import Kind, lower
from adagp.host.compiler.predictor import Predictor
from adagp.host.compiler.substitutes import Substitute
from adagp.host.compiler.tensors import layer_tensor
from adagp.host.training.models import build_model
from adagp.host.training.network import Network
from adagp.spec.commands import Opcode, Phase
from adagp.spec.presets import preset
from adagp.spec.schedule import SOURCES

CONFIG = replace(preset("ecp5"), variant="max", random_signs=True)
SHAPE, BATCH = (1, 8, 8), 4
LAYERS = lower(build_model("digits-cnn", SHAPE, 10, 1), SHAPE, CONFIG)
TRAINED = [layer.name for layer in LAYERS if layer.kind is Kind.GEMM]
GRADIENTS = {
    None: TrueGradients(),
    **{kind: Predictor(LAYERS, BATCH, CONFIG, kind) for kind in ("predicted", "random")},
    **{kind: Substitute(LAYERS, CONFIG, kind) for kind in ("zero", "last", "mean", "skip")},
}


def test_every_source_of_a_schedule_is_here():
    assert set(GRADIENTS) == {None, *SOURCES}


@pytest.mark.parametrize("kind", GRADIENTS)
def test_steps_that_a_source_is_handed_stay_as_they_are(kind):
    seen = 0
    for place, layer in enumerate(LAYERS):
        handed = Step(Opcode.FORWARD, Phase.ALL, place, {"a": "x", "out": "y"}, {"track": 1})
        before = deepcopy(handed)
        first = list(GRADIENTS[kind].forward(place, layer, handed))
        assert handed == before and first == list(GRADIENTS[kind].forward(place, layer, handed))
        seen += len(first)
    assert seen >= len(LAYERS)


@pytest.mark.parametrize("kind", GRADIENTS)
def test_which_updates_a_batch_has_by_phase(kind):
    """Each layer is updated once in warm-up and in BP; in GP too, unless there is no GP or its batches are skipped."""
    steps = list(batch_steps(LAYERS, GRADIENTS[kind]))
    updates = [step for step in steps if step.opcode == Opcode.UPDATE]
    for phase in (Phase.WARMUP, Phase.BP, Phase.GP):
        names = [LAYERS[step.layer].name for step in updates if step.phases & phase]
        assert sorted(names) == sorted([] if phase is Phase.GP and kind in (None, "skip") else TRAINED)
    (host,) = (step for step in steps if step.opcode == Opcode.HOST)
    assert bool(host.phases & Phase.GP) == (kind is None)
    assert any(step.opcode == Opcode.ADAM for step in steps) == (kind in ("predicted", "random"))


@pytest.mark.parametrize("kind", GRADIENTS)
def test_the_tensors_of_a_source_are_those_that_its_steps_use(kind):
    """No name is only declared, and none is only used."""
    source = GRADIENTS[kind]
    declared = {tensor.name for _, tensor in source.tensors(100)}
    steps = [*batch_steps(LAYERS, source), *(step for program in source.programs().values() for step in program)]
    used = {name for step in steps for name in (*step.operands.values(), *step.numbers.values())}
    own = {"output", "index", "gradient", "weight", "low", "momentum", "weight_gradient"}
    plain = {layer_tensor(layer, part) for layer in LAYERS for part in own} | {"input", "loss.gradient"}
    assert used - plain == declared
    assert bool(declared) == (kind in ("predicted", "random", "last", "mean"))


@pytest.mark.parametrize("kind", GRADIENTS)
@pytest.mark.parametrize("phase", range(4))
def test_which_batches_may_calibrate(kind, phase):
    class Device:
        started = 0

        def set_ring(self, *arguments):
            pass

        def start(self, *arguments):
            self.started += 1

    network, device = Network(build_model("digits-cnn", SHAPE, 10, 1), SHAPE, BATCH, CONFIG, source=kind), Device()
    predictor = kind in ("predicted", "random")
    if phase == 2 or (phase == 1 and predictor):
        with pytest.raises(ValueError, match=f"the batch that calibrates is one of warm-up, not of phase {phase}"):
            network.start(device, phase, calibrate=True)
    else:
        network.start(device, phase, calibrate=True)
    network.start(device, phase)
    assert device.started == 1 + (phase in (0, 3) or (phase == 1 and not predictor))
