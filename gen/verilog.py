"""Emission of an accelerator: ``top.v``, its description ``top.json`` and the C header ``adagp.h``."""

import json
from pathlib import Path

from amaranth.back import verilog
from amaranth.hdl import PortDirection, ValueCastable
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from ..spec.config import Config
from .description import MODULE, describe
from .header import header

__all__ = ["generate", "port_names", "to_verilog"]


def _ports(component):
    """The component's ports by flat name; ``m_axi.awaddr`` is ``m_axi_awaddr``."""
    ports = {}
    for path, member, value in component.signature.flatten(component):
        direction = PortDirection.Input if member.flow == In else PortDirection.Output
        ports["_".join(map(str, path))] = (value.as_value() if isinstance(value, ValueCastable) else value, direction)
    return ports


def port_names(component: wiring.Component) -> list[str]:
    """Names of the Verilog ports, ``clk`` and ``rst`` apart.

    Raises ValueError for a name with a double underscore, which Verilator would escape.
    """
    names = list(_ports(component))
    for name in names:
        if "__" in name:
            raise ValueError(f"port {name!r} has a double underscore")
    return names


def to_verilog(component: wiring.Component) -> str:
    """Verilog-2005 text of ``component`` as module ``adagp``, the same for every run."""
    port_names(component)
    return verilog.convert(
        component, name=MODULE, ports=_ports(component), emit_src=False, strip_internal_attrs=True
    )  # fmt: skip


def generate(config: Config, directory: Path | str, component: wiring.Component | None = None) -> Path:
    """Write ``top.v``, ``top.json`` and ``adagp.h`` for ``config``; returns the path of ``top.v``.

    ``component`` replaces the accelerator by another component with the same ports.
    """
    if component is None:
        from ..rtl.top import Top  # here, so that the description of a configuration needs no hardware

        component = Top(config)
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "top.json").write_text(json.dumps(describe(config), indent=2) + "\n")
    (directory / "adagp.h").write_text(header(config))
    path = directory / "top.v"
    path.write_text(to_verilog(component))
    return path
