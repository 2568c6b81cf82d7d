"""A batch of classification on a device, with the loss on the host, and its steps against PyTorch's gradients."""

from adagp.host.training.loss import softmax_cross_entropy
from adagp.spec.phases import GP, WARMUP
from adagp.spec.registers import Status

__all__ = ["steps_are_gradients", "train_batch"]


def train_batch(network, device, images, labels, calibrate=False, phase=WARMUP, moment=None):
    """Train a batch; returns its loss and the logits, None for a batch of GP, which has no loss."""
    network.write_input(device, images)
    network.start(device, phase, calibrate=calibrate, moment=moment)
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


def steps_are_gradients(twin, before, after, rate, share=0.02):
    """Assert that a batch moved the weights by ``rate`` times the gradients of ``twin``, but for a ``share`` of them.

    Gradients that are lost among a weight's last bits aren't compared; returns the number of those that are.
    """
    checked = 0
    for name, parameter in twin.named_parameters():
        step = (before[name] - after[name].double()) / rate
        norm = float(parameter.grad.norm())
        if norm > 1e-3:
            assert float((step - parameter.grad).norm()) < share * norm, name
            checked += 1
    return checked
