"""Random signs in the whole machine: the generated Verilog trains to the golden model's bits."""

import pytest
from adagp.host.training.session import open_session
from adagp.host.training.settings import TrainSettings
from adagp.host.training.trainer import Trainer

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

SETTINGS = {
    "preset": "tiny", "model": "mlp", "batch": 4, "epochs": 3, "train_images": 12, "test_images": 4, "variant": "low",
    "phases": "1*2:1 1:1", "learning_rate": 0.02, "seed": 0x9A3_1C25_7E08,
}  # fmt: skip
"""Behind the warm-up: two batches of GP, one of BP, and so on, over the end of an epoch."""


def trained(device, source):
    """Hashes behind each batch that the host sees the end of, and at the end."""
    settings, hashes = TrainSettings(**SETTINGS, gradient_source=source), []
    with open_session(settings, device) as session:
        trainer = Trainer(settings, session.network, session.device, session.dataset)
        trainer.on_batch = lambda *_: hashes.append(session.network.weights_hash(session.device))
        batches = trainer.run().batches
        return [*hashes, session.network.weights_hash(session.device)], batches


def test_simulation_equals_golden():
    expected, batches = trained("golden", "random")
    assert batches[2] > 2
    assert trained("sim", "random") == (expected, batches)
    assert trained("golden", "predicted")[0][-1] != expected[-1]
