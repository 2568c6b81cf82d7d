"""The page of operators: it is the compiler's, and has every operator that the machine computes."""

import re

import pytest
from adagp.evaluation.report import operators
from adagp.evaluation.report.operators import EXAMPLES, REFUSED, Example
from adagp.host.compiler.operators import _HANDLERS
from torch import nn


@pytest.fixture(scope="module")
def made():
    """The page, and the targets of all operators that are captured for it."""
    with pytest.MonkeyPatch.context() as patch:
        targets, capture = set(), operators.capture

        def seen(*args):
            captured = capture(*args)
            targets.update(node.target for node in captured.nodes)
            return captured

        patch.setattr(operators, "capture", seen)
        return operators.page(), targets


def test_the_committed_page_is_the_compilers(made):
    assert operators.PATH.read_text() == made[0], "run nox -s docs"


def test_every_operator_of_the_machine_has_an_example(made):
    missing = [str(target) for target in _HANDLERS if target not in made[1] and ".padding" not in str(target)]
    assert missing in ([], ["aten.upsample_nearest2d.default"])  # what an older torch calls it
    assert len(_HANDLERS) > 8


def test_rows(made):
    found = dict(re.findall(r"^\| `(.*?)`(?:, rows)? \| (.*?) \|", made[0], re.MULTILINE))
    assert len(found) == sum(map(len, EXAMPLES.values())) + len(REFUSED)
    on_device = ("nn.ReLU()", "torch.add(x, y)", "nn.MaxPool2d(3, 2, 1)", "nn.AdaptiveAvgPool2d(1)", "nn.Linear(4, 6)")
    on_host = ("nn.Softmax(1)", "nn.GELU()", "nn.LayerNorm(8)", "torch.mul(x, y)", "nn.Conv2d(4, 6, 3, dilation=2)")
    assert [found[text] for text in (*on_device, *on_host)] == ["device"] * 5 + ["host"] * 5
    assert found["nn.TransformerEncoderLayer(4, 2, 8, 0.1, batch_first=True)"] == "device and host"
    assert "PyTorch has no gradient of heaviside" in found["torch.heaviside(x, y)"]


def test_what_is_not_refused_has_no_place_among_refusals():
    with pytest.raises(ValueError, match=r"nn\.ReLU\(\) isn't refused"):
        operators._refusal(Example(nn.ReLU))
