"""Checks of configurations: each names the field, its value and the rule that it breaks."""

import math
import re
from dataclasses import fields

__all__ = ["ConfigError", "is_power_of_two", "require", "require_types"]


class ConfigError(ValueError):
    """A configuration that can't be built; the message names the field, its value and the rule."""


def is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def require(ok: object, field: str, value: object, rule: str) -> None:
    """Raise ConfigError unless ``ok``: ``field`` has a ``value`` that breaks the ``rule``."""
    if not ok:
        raise ConfigError(f"{field} = {value!r} must satisfy {rule}")


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def require_types(instance) -> None:
    """Check that every field of a dataclass has its declared type, and that ``name`` can be a file's name."""
    for field in fields(instance):
        value = getattr(instance, field.name)
        if field.type in (int, float):
            number = isinstance(value, (int, field.type)) and not isinstance(value, bool) and math.isfinite(value)
            rule = "an integer" if field.type is int else "a finite number"
            require(number, field.name, value, f"{field.name} is {rule}")
        else:
            assert isinstance(field.type, type)  # no annotation here is a string
            require(isinstance(value, field.type), field.name, value, f"{field.name} is a {field.type.__name__}")
    require(_NAME.fullmatch(instance.name), "name", instance.name, "name consists of 1..64 letters, digits, . _ -")
