"""Networks that can't be trained or evaluated as in PyTorch are refused in one line, which names the module."""

import pytest
import torch
from adagp.host.compiler.front_end import graph_of
from adagp.host.compiler.lowering import LoweringError
from adagp.host.compiler.values import Input
from adagp.spec.presets import preset
from made_modules import Made
from torch import nn

TINY, BATCH, IMAGE = preset("tiny"), 4, (2, 6, 6)


def conv(c=2, q=4):
    return nn.Conv2d(c, q, 3, padding=1)


def between(part):
    return lambda: Made(lambda m, x: m.two(m.part(m.one(x))), one=conv(), part=part, two=conv(4, 3))


class Negated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1.0

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


def hooked(m, x):
    if x.requires_grad:
        x.register_hook(torch.neg)
    return x * 1.0


REFUSED = {
    "a backward pass of its own": (
        between(Made(lambda m, x: Negated.apply(x))),
        r"^part: the backward pass of Negated \(torch\.autograd\.Function\) isn't supported$",
    ),
    "a hook": (between(Made(hooked)), r"^part: a hook on a tensor's gradient isn't called: remove it$"),
    "statistics of instances": (between(nn.InstanceNorm2d(4, track_running_stats=True)),
                                r"^part: instance_norm with running statistics isn't supported: track_running_stats"),
    "a mean over all batches": (between(nn.BatchNorm2d(4, momentum=None)),
                                r"^part \(BatchNorm2d\): momentum = None isn't supported: give it a number$"),
    "no channels": (lambda: nn.Sequential(conv(), conv(4, 0)), r"^1 \(Conv2d\): its weight has no elements$"),
    "a value without elements": (lambda: Made(lambda m, x: (m.one(x), m.one(x)[:, :0]), one=conv()),
                                 r"^the network: \S+\.output has no elements: its shape is \(4, 0, 6, 6\)$"),
    "five dimensions in evaluation": (between(Made(lambda m, x: x if m.training else x[:, :, :, :, None])),
                                 r"^in evaluation, two can't be captured"),
    "other results in evaluation": (
        lambda: Made(lambda m, x: (m.one(x), m.one(x).exp()) if m.training else m.one(x), one=conv()),
        r"^the network has 2 results in training and 1 in evaluation$",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case, capfd):
    make, message = REFUSED[case]
    with pytest.raises(LoweringError, match=message) as caught:
        graph_of(make(), IMAGE, BATCH, TINY)
    assert "\n" not in str(caught.value) and capfd.readouterr() == ("", "")
    assert vars(torch.autograd.Function)["apply"].__func__.__qualname__ == "Function.apply"  # as before


def test_words_that_change_while_they_are_read_are_refused():
    module = Made(lambda m, x: m.two(m.words(x)), words=nn.Embedding(10, 6, max_norm=1.0), two=nn.Linear(6, 3))
    with pytest.raises(LoweringError, match=r"^words: embedding_renorm changes the parameter words\.weight in the"):
        graph_of(module, [Input((4,), 9, whole=True)], BATCH, TINY)
