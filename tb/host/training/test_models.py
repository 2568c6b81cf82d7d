"""Networks by name: files that are missing, networks of libraries, modules that aren't Sequential."""

import importlib
import sys
from types import ModuleType

import pytest
from adagp.cli.train import _name
from adagp.cli.train_pipeline import PipelineOptions
from adagp.host.training import library_models
from adagp.host.training.models import ModelError, build_model
from adagp.host.training.settings import TrainSettings
from torch import nn


class Branches(nn.Module):
    """A network that is no Sequential."""

    def __init__(self, features, n_classes):
        super().__init__()
        self.left, self.right = nn.Linear(features, n_classes), nn.Linear(features, n_classes)

    def forward(self, x):
        return self.left(x.flatten(1)) + self.right(x.flatten(1))


def stubs(monkeypatch, calls):
    """Stand-ins for both libraries, which note how they are called."""

    def made(**options):
        calls.append(options)
        return Branches(3 * 8 * 8, options["num_classes"])

    models = ModuleType("torchvision.models")
    models.list_models = lambda module: ["resnet50", "googlenet"] if module is models else ["maskrcnn"]
    models.get_model = lambda name, **options: made(name=name, **options)
    timm = ModuleType("timm")
    timm.is_model = lambda name: name == "inception_v4"
    timm.create_model = lambda name, **options: made(name=name, **options)
    for module in (ModuleType("torchvision"), models, timm):
        monkeypatch.setitem(sys.modules, module.__name__, module)


def test_names_of_libraries(monkeypatch):
    calls = []
    stubs(monkeypatch, calls)
    for name in ("torchvision:resnet50", "torchvision:googlenet", "timm:inception_v4"):
        assert isinstance(build_model(name, (3, 8, 8), 7, 0), Branches)
    assert calls == [
        {"name": "resnet50", "weights": None, "num_classes": 7},
        {"name": "googlenet", "weights": None, "num_classes": 7, "aux_logits": False},
        {"name": "inception_v4", "pretrained": False, "num_classes": 7, "in_chans": 3},
    ]
    for name, channels, message in (
        ("torchvision:maskrcnn", 3, "torchvision classifies images with no network 'maskrcnn'"),
        ("torchvision:resnet50", 1, "networks of torchvision take images of 3 channels, not 1"),
        ("timm:resnet9000", 3, "timm has no network 'resnet9000'"),
    ):
        with pytest.raises(ModelError, match=f"^{name}: {message}"):
            build_model(name, (channels, 8, 8), 7, 0)


@pytest.mark.parametrize("library", ["torchvision", "timm"])
def test_an_absent_library_is_named(monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ModelError, match=rf"{library} can't be imported .*pip install 'adagp\[models\]'"):
        build_model(f"{library}:resnet50", (3, 32, 32), 10, 0)


def test_torchvision_for_another_build_of_torch_is_used_without_its_operators(monkeypatch):
    calls, defined, real = [], [], importlib.import_module
    stubs(monkeypatch, calls)

    def strict(name):
        if name == "torchvision" and not defined:
            raise RuntimeError("operator torchvision::nms does not exist")
        return real(name)

    monkeypatch.setattr(library_models.importlib, "import_module", strict)
    monkeypatch.setattr(library_models._undefined, "define", defined.append)
    assert isinstance(build_model("torchvision:resnet50", (3, 8, 8), 7, 0), Branches) and len(calls) == 1
    assert [schema.partition("(")[0] for schema in defined] == ["nms", "qnms"]


def test_a_file_gives_any_module_and_its_weights_depend_on_the_seed(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(
        "from torch import nn\n\nclass Net(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n"
        "        self.fc = nn.Linear(4, n)\n\ndef build(shape, n_classes):\n    return Net(n_classes)\n"
    )
    one, same, other = (build_model(f"{path}:build", (1, 2, 2), 3, seed) for seed in (0, 0, 1))
    assert type(one).__name__ == "Net" and not isinstance(one, nn.Sequential)
    assert one.fc.weight.equal(same.fc.weight) and not one.fc.weight.equal(other.fc.weight)


@pytest.mark.parametrize(("name", "message"), [
    ("nothere.py:build", "nothere.py:build: the file nothere.py is missing"),
    ("nothere.py", "nothere.py names a file without a function: give nothere.py:FUNCTION"),
])  # fmt: skip
def test_what_is_wrong_with_a_file_is_said(name, message):
    with pytest.raises(ModelError, match=message):
        build_model(name, (1, 2, 2), 3, 0)


@pytest.mark.parametrize(("model", "name"), [
    ("mlp", "mlp-digits-ecp5-sim-0"),
    ("nets/first.py:build", "first-build-digits-ecp5-sim-0"),
    ("second.py:build", "second-build-digits-ecp5-sim-0"),
    ("torchvision:resnet18", "torchvision-resnet18-digits-ecp5-sim-0"),
])  # fmt: skip
def test_runs_are_named_after_files_and_functions(model, name):
    assert _name(TrainSettings(model=model), "sim", PipelineOptions()) == name
