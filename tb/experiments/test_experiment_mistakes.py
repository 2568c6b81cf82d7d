"""``adagp experiment``: its help and settings, and what it says about mistakes."""

import os
import subprocess
import sys

import pytest
import torch
from adagp.experiments.data import DATASETS
from adagp.experiments.experiment_folder import ExperimentFolder
from adagp.experiments.methods.ideas import IDEAS
from adagp.experiments.methods.methods import ALL_METHODS, METHODS
from adagp.experiments.networks.models import MODELS
from adagp.experiments.settings import DEFAULT_METHODS, chosen
from small_experiments import TINY


def test_help_names_everything(experiment):
    code, out, _ = experiment("--help")
    words = {word.strip(".,:()`") for word in out.replace("│", " ").split()}
    assert code == 0 and words >= {*MODELS, *DATASETS, *ALL_METHODS} and "Example: adagp experiment" in out
    controls = {name for name, m in METHODS.items() if name.endswith("1:1") and m.source not in IDEAS}
    assert set(DEFAULT_METHODS) == {"bp-1", "ada-gp", *controls, "skip"}


def test_help_needs_no_torch():
    heavy = "('torch', 'amaranth', 'matplotlib')"
    code = f"import sys, adagp.cli.experiment; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_papers_settings():
    vgg = chosen("vgg13", True, {"data": "cifar100", "epochs": 5})
    assert (vgg.lr, vgg.optimizer, vgg.momentum, vgg.lr_schedule) == (1e-3, "sgd", 0.9, "plateau")
    assert vgg.epochs == 5 and chosen("vgg13", True, {}).epochs == 90 and "ada-gp-raw" in vgg.methods
    every = [name for name, m in METHODS.items() if m.source not in IDEAS or m.source == "half"]
    assert chosen("vgg13", False, {"methods": ("all",)}).methods == tuple(every)
    assert chosen("small-cnn", False, {"methods": ("all",)}).methods == tuple(METHODS)
    assert chosen("small-resnet", False, {"methods": ("all",)}).methods == tuple(every)
    deeper = [name for name, m in METHODS.items() if m.source != "coarse"]
    assert chosen("small-cnn5", False, {"methods": ("all",)}).methods == tuple(deeper)
    yolo = chosen("yolo-v3", True, {})
    assert (yolo.lr, yolo.weight_decay, yolo.data) == (3e-5, 1e-4, "voc") and "dni-1:1" not in yolo.methods
    assert chosen("transformer", True, {}).optimizer == "sgd" and chosen("transformer", False, {}).optimizer == "adam"


MISTAKES = {
    "model": (("--model", "resnet18"), "model = 'resnet18' must be one of inception-v4"),
    "data": (("--data", "mnist"), "data = 'mnist' must be one of cifar10"),
    "method": (("--methods", "bp-1,magic"), "methods: there is no 'magic'; there are bp-1"),
    "method twice": (("--methods", "bp-1,bp-1"), "methods = 'bp-1,bp-1' must name some, each once"),
    "seeds": (("--seeds", "a"), "seeds = 'a' must be whole numbers"),
    "negative seed": (("--seeds", "-1"), "seeds = '-1' must be 0 or more"),
    "epochs": (("--epochs", "0"), "epochs = 0 must be at least 1"),
    "batch": (("--batch", "0"), "batch = 0 must be at least 1"),
    "large batch": (("--images", "50", "--batch", "51"), "batch = 51, and there are 50 training examples"),
    "images": (("--images", "5000"), "images is 5000, and there are 1293 training examples"),
    "negative images": (("--images", "-1"), "images = -1 must be"),
    "lr": (("--lr", "0"), "lr = 0.0 must satisfy"),
    "momentum": (("--momentum", "1"), "momentum = 1.0 must satisfy"),
    "idle momentum": (("--optimizer", "adam", "--momentum", "0.9"), "momentum = 0.9: of no effect with optimizer"),
    "optimizer": (("--optimizer", "lion"), "optimizer = 'lion' must be one of sgd, adam, adamw"),
    "course": (("--lr-schedule", "step"), "lr_schedule = 'step' must be one of cosine"),
    "device": (("--device", "tpu"), "device = 'tpu' must be one of cpu, cuda"),
    "autocast": (("--autocast", "int8"), "autocast = 'int8' must be one of off, bf16, fp16"),
    "idea": (("--model", "small-resnet", "--methods", "bp-1,half-1:1,late-1:1"),
             "methods: late-1:1 is for small-cnn and small-cnn5: leave it out"),
    "stale weights": (("--model", "vgg13", "--data", "cifar10", "--methods", "bp-1,stale-deep"),
                      "methods: stale-deep is for small-cnn, small-cnn5, small-resnet, lenet5, small-vgg, resnet20"),
    "smaller images": (("--model", "small-cnn5", "--methods", "bp-1,coarse"),
                       "methods: coarse is for small-cnn: leave it out"),
    "transformer on images": (("--model", "transformer", "--data", "cifar10"),
                              "model = 'transformer' is for translation, and data = 'cifar10' for classification"),
    "cnn on sentences": (("--data", "multi30k"), "model = 'small-cnn' is for classification, and data = 'multi30k'"),
    "folder": (("--data", "cifar10", "--data-dir", "nowhere"), "cifar10: nowhere isn't there"),
    "no folder": (("--model", "yolo-v3"), "voc: no folder is given"),
    "image size": (("--image-size", "3"), "image_size is 3, and images of 8 pixels"),
    "small images": (("--model", "vgg13", "--data", "digits"), "image_size is 8, and vgg13 needs at least 32"),
    "synthetic gradients": (("--autocast", "bf16", "--methods", "dni-1:1"), "methods: dni-1:1 is for classification"),
    "paper": (("--paper",), "paper: model = 'small-cnn' isn't one of the paper's"),
    "threads": (("--threads", "0"), "threads = 0 must be at least 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told_in_a_line(name, experiment, tmp_path):
    options, why = MISTAKES[name]
    code, out, err = experiment(*options, "--run", tmp_path / "run")
    assert code == 2 and not out and err.startswith("error: ") and why in err and "\n" not in err
    assert not (tmp_path / "run").exists()


def test_no_gpu(experiment, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    code, _, err = experiment("--device", "cuda", "--run", tmp_path / "run")
    assert code == 2 and err == "error: device = 'cuda', and PyTorch finds no GPU"


@pytest.mark.parametrize("option, field", (
    (("--epochs", "2"), "epochs = 1, not 2"), (("--lr", "0.2"), "lr = 0.1, not 0.2"),
    (("--batch", "32"), "batch = 64, not 32"), (("--augment",), "augment = False, not True"),
    (("--optimizer", "adamw"), "optimizer = 'sgd', not 'adamw'"), (("--model", "small-resnet"), "model = 'small-cnn'"),
))  # fmt: skip
def test_a_folder_of_other_settings_is_refused(option, field, experiment, tmp_path):
    base = (*TINY, "--epochs", "1", "--methods", "bp-1", "--run", tmp_path)
    assert experiment(*base)[0] == 0
    before = (tmp_path / "outcomes.json").read_bytes()
    code, out, err = experiment(*base, *option)
    assert code == 2 and not out and f"holds an experiment with {field}" in err and "\n" not in err
    assert (tmp_path / "outcomes.json").read_bytes() == before


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "content, why",
    [
        ({"notes.txt": "mine"}, "holds notes.txt but no experiment"),
        ({"lock": "mine"}, "holds lock but no experiment"),
        ({"settings.json": '{"editor": "mine"}', "lock": "mine"}, "holds lock but no experiment"),
        ({"settings.json": '{"model": "small-cnn", "lr": 0.1}'}, "holds settings.json but no experiment"),
        ({"settings.json": "[]", "outcomes.json": "mine"}, "holds outcomes.json but no experiment"),
        ({"adagp.json": '{"kind": "run", "version": 1}'}, "adagp.json is of kind 'run', not 'experiment'"),
        ({"adagp.json": '{"kind": "experiment", "version": 99}'}, "adagp.json has version 99; this adagp knows 1"),
        ({"adagp.json": "mine"}, "can't read"),
    ],
)
def test_folders_of_others_are_left_alone(experiment, tmp_path, content, why):
    for name, text in content.items():
        (tmp_path / name).write_text(text)
    before = files(tmp_path)
    code, out, err = experiment(*TINY, "--epochs", 1, "--methods", "bp-1", "--run", tmp_path)
    assert code == 2 and not out and why in err and "\n" not in err and files(tmp_path) == before


def test_an_experiment_of_an_earlier_version_goes_on_and_gets_the_marker(experiment, tmp_path):
    base = (*TINY, "--epochs", 1, "--methods", "bp-1", "--run", tmp_path)
    assert experiment(*base)[0] == 0
    (tmp_path / "adagp.json").unlink()
    (tmp_path / "lock").unlink()
    code, _, err = experiment(*base)
    assert code == 0 and "1 of 1 runs" in err and (tmp_path / "adagp.json").exists()


def test_a_second_command_is_told_who_is_at_work(experiment, tmp_path):
    settings = chosen("small-cnn", False, {"epochs": 1})
    with ExperimentFolder(tmp_path).in_use(settings):
        code, _, err = experiment(*TINY, "--epochs", 1, "--methods", "bp-1", "--run", tmp_path)
    assert code == 2 and f"another command is at work in {tmp_path}: process {os.getpid()}" in err
