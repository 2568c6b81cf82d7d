"""Options that several commands share, as one parameter.

A group is a dataclass whose fields are options. A command takes it as a parameter whose default holds the defaults of
the group's options::

    @grouped
    def disasm(compiled: NetworkOptions = NetworkOptions(batch=32)) -> None: ...
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

__all__ = ["grouped"]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Give typer a command that has each field of its groups as a parameter, and hands the groups to ``command``."""
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        name: one.default for name, one in signature.parameters.items() if is_dataclass(one.default)
    }
    parameters = []
    for name, parameter in signature.parameters.items():
        parameters += _fields(groups[name]) if name in groups else [parameter]

    @functools.wraps(command)
    def with_groups(**values) -> None:
        for name, defaults in groups.items():
            group: Any = type(defaults)
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(defaults)})
        command(**values)

    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    with_groups.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # inspect's hook
    with_groups.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_groups


def _fields(defaults) -> list[inspect.Parameter]:
    """The fields of a group as a command's parameters."""
    hints = get_type_hints(type(defaults), include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=getattr(defaults, field.name),
            annotation=hints[field.name],
        )
        for field in fields(defaults)
    ]
