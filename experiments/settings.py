"""An experiment's settings, checked when constructed, with their defaults and the paper's."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from ..algorithm.paper_numbers import EPOCHS, LR, YOLO_LR, YOLO_WEIGHT_DECAY
from ..host.training.settings import SettingsError
from .data import DATASETS
from .methods.ideas import IDEAS
from .methods.methods import ALL_METHODS, METHODS
from .methods.optimisation import AUTOCASTS, DEVICES, LR_SCHEDULES, MOMENTUM, OPTIMIZERS, WEIGHT_DECAY
from .networks.models import HALVED_MODELS, MODELS, PAPER_MODELS, SEQUENTIAL_MODELS, SMALL_MODELS
from .tasks import CLASSIFICATION, DETECTION, TASKS, TRANSLATION, task_of

__all__ = ["DEFAULT_METHODS", "ExperimentSettings", "chosen", "fitting", "parse_methods", "parse_seeds"]

DEFAULT_METHODS = (
    "bp-1", "ada-gp", "ada-gp-1:1", "random-1:1", "zero-1:1", "last-1:1", "mean-1:1", "skip-1:1", "dni-1:1", "skip",
)  # fmt: skip
"""Plain training, the paper's method, and what predicted gradients are to be compared with."""
OTHER_TASKS = {"transformer": TRANSLATION, "yolo-v3": DETECTION}
"""Networks for something else than classification."""
_PAPER = {
    "epochs": EPOCHS, "optimizer": "sgd", "lr": LR, "momentum": MOMENTUM, "weight_decay": 0.0, "lr_schedule": "plateau",
}  # fmt: skip
"""Section 5.2. It doesn't say the momentum, nor a weight decay: usual, and PyTorch's default of none."""
_PAPER_YOLO = {"lr": YOLO_LR, "weight_decay": YOLO_WEIGHT_DECAY}
_LEARNING_RATES = {"sgd": 0.05, "adam": 1e-3, "adamw": 1e-3}


def fitting(methods: Iterable[str], model: str, data: str, autocast: str = "off") -> tuple[str, ...]:
    """Those of the ``methods`` that there are for a network and its examples."""
    return tuple(method for method in methods if not _meant_for(ALL_METHODS[method].source, model, data, autocast))


def _meant_for(source: str, model: str, data: str, autocast: str) -> str:
    """The restriction of a source of gradients that the settings break, "" if none."""
    if source not in ("dni", "stale", *IDEAS):
        return ""
    if task_of(data) is not CLASSIFICATION or autocast != "off":
        return "classification with autocast off"
    if source in ("dni", "half"):
        return ""
    if source == "stale":
        return "" if model in SMALL_MODELS else ", ".join(SMALL_MODELS)
    models = HALVED_MODELS if source == "coarse" else SEQUENTIAL_MODELS
    return "" if model in models else " and ".join(models)


@dataclass(frozen=True)
class ExperimentSettings:
    """Everything that decides the outcomes; raises SettingsError that names the field.

    ``images``: training examples, all if 0. ``image_size``: None for the data set's own. ``threads``: of PyTorch, in
    each process, as sums depend on it.
    """

    model: str
    data: str
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    epochs: int
    batch: int
    lr: float
    optimizer: str
    lr_schedule: str
    momentum: float
    weight_decay: float
    image_size: int | None = None
    images: int = 0
    augment: bool = False
    device: str = "cpu"
    autocast: str = "off"
    threads: int = 1

    def __post_init__(self):
        for name, known in (
            ("model", MODELS), ("data", DATASETS), ("optimizer", OPTIMIZERS), ("lr_schedule", LR_SCHEDULES),
            ("device", DEVICES), ("autocast", AUTOCASTS),
        ):  # fmt: skip
            if getattr(self, name) not in known:
                raise SettingsError(f"{name} = {getattr(self, name)!r} must be one of {', '.join(known)}")
        for name in ("epochs", "batch", "threads"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} = {getattr(self, name)} must be at least 1")
        if self.image_size is not None and self.image_size < 1:
            raise SettingsError(f"image_size = {self.image_size} must be at least 1")
        if self.images < 0:
            raise SettingsError(f"images = {self.images} must be at least 1, or 0 for all")
        if not 0 < self.lr <= 1e3:
            raise SettingsError(f"lr = {self.lr} must satisfy 0 < lr <= 1000")
        for name in ("momentum", "weight_decay"):
            if not 0 <= getattr(self, name) < 1:
                raise SettingsError(f"{name} = {getattr(self, name)} must satisfy 0 <= {name} < 1")
        self._check_lists()
        self._check_task()

    def _check_lists(self):
        for name in ("methods", "seeds"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise SettingsError(f"{name} = {','.join(map(str, values))!r} must name some, each once")
        if unknown := [method for method in self.methods if method not in ALL_METHODS]:
            raise SettingsError(f"methods: there is no {unknown[0]!r}; there are {', '.join(ALL_METHODS)}")
        if any(seed < 0 for seed in self.seeds):
            raise SettingsError(f"seeds = {','.join(map(str, self.seeds))!r} must be 0 or more")

    def _check_task(self):
        mine, its = OTHER_TASKS.get(self.model, CLASSIFICATION), task_of(self.data)
        if mine is not its:
            raise SettingsError(f"model = {self.model!r} is for {mine.name}, and data = {self.data!r} for {its.name}")
        for method in self.methods:
            if purpose := _meant_for(ALL_METHODS[method].source, self.model, self.data, self.autocast):
                raise SettingsError(f"methods: {method} is for {purpose}: leave it out")

    @property
    def follow(self) -> bool:
        """Curves are drawn."""
        return True

    def deciding(self) -> dict[str, Any]:
        """Settings that two commands must share to use one folder: all but methods and seeds, which may grow."""
        return {name: value for name, value in asdict(self).items() if name not in ("methods", "seeds")}


def parse_methods(text: str) -> tuple[str, ...]:
    """Names with commas between them, or "all": those that there are for the network."""
    return tuple(name.strip() for name in text.split(","))


def parse_seeds(text: str) -> tuple[int, ...]:
    """Numbers with commas between them; raises SettingsError."""
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise SettingsError(f"seeds = {text!r} must be whole numbers, such as 0,1,2") from None


def _usual_data(model: str) -> str:
    if model in OTHER_TASKS:
        return next(name for name, task in TASKS.items() if task is OTHER_TASKS[model])
    return "digits" if model in SMALL_MODELS else "cifar10"


def _paper(model: str) -> dict[str, Any]:
    if model not in PAPER_MODELS:
        raise SettingsError(f"paper: model = {model!r} isn't one of the paper's: {', '.join(PAPER_MODELS)}")
    return {**_PAPER, **(_PAPER_YOLO if model == "yolo-v3" else {})}


def chosen(model: str, paper: bool, given: dict[str, Any]) -> ExperimentSettings:
    """The settings of a command: what is ``given`` and isn't None, and for the rest the paper's or the defaults."""
    if model not in MODELS:
        raise SettingsError(f"model = {model!r} must be one of {', '.join(MODELS)}")
    said = {name: value for name, value in given.items() if value is not None}
    beside = _paper(model) if paper else {"epochs": 12, "lr_schedule": "cosine"}
    base: dict[str, Any] = {"data": _usual_data(model), "seeds": (0, 1, 2), "batch": 64, **beside, **said}
    base.setdefault("optimizer", "adam" if model in OTHER_TASKS else "sgd")
    base.setdefault("lr", 1e-4 if model in OTHER_TASKS else _LEARNING_RATES.get(base["optimizer"], 1.0))
    # (an optimizer that there isn't is told with the other settings)
    base.setdefault("weight_decay", WEIGHT_DECAY if base["optimizer"] == "sgd" else 0.0)
    if base["optimizer"] != "sgd":
        if "momentum" in said:
            raise SettingsError(f"momentum = {said['momentum']}: of no effect with optimizer = {base['optimizer']!r}")
        base["momentum"] = 0.0
    base.setdefault("momentum", MOMENTUM)
    every = tuple(METHODS) if base.get("methods") == ("all",) else (*DEFAULT_METHODS, *["ada-gp-raw"] * paper)
    if base.get("methods", ("all",)) == ("all",):
        base["methods"] = fitting(every, model, base["data"], base.get("autocast", "off"))
    return ExperimentSettings(model=model, **base)
