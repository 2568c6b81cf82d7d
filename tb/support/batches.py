"""A batch of classification on a device, with the loss on the host."""

from adagp.host.training.loss import softmax_cross_entropy
from adagp.spec.phases import GP, WARMUP
from adagp.spec.registers import Status

__all__ = ["train_batch"]


def train_batch(network, device, images, labels, calibrate=False, phase=WARMUP):
    """Train a batch; returns its loss and the logits, None for a batch of GP, which has no loss."""
    network.write_input(device, images)
    network.start(device, phase, calibrate=calibrate)
    status = network.wait(device)
    if phase == GP:
        assert status & Status.DONE
        return None
    assert status & Status.HOST
    logits = network.read_logits(device)
    loss, gradient = softmax_cross_entropy(logits, labels)
    network.write_loss_gradient(device, gradient)
    device.resume()
    assert network.wait(device) & Status.DONE
    return loss, logits
