"""Verilog that is generated once and kept in the cache."""

import json
import sys
import time
from pathlib import Path

from amaranth.lib import wiring

from ..spec.config import Config
from .cache import digest, entry
from .generator_sources import generator_sources
from .verilog import generate

__all__ = ["generated"]


def generated(config: Config, cycles_per_bit: int | None = None) -> Path:
    """Path of ``top.v`` for ``config``, generated now unless it is in the cache.

    ``top.json`` and ``adagp.h`` are beside it. It has a host link if ``cycles_per_bit``
    is given: the clock cycles that a bit of the serial line lasts.
    """
    key = digest(json.dumps(config.to_dict(), sort_keys=True), generator_sources(), cycles_per_bit)
    with entry(f"verilog-{config.name}-{key}") as (path, scratch):
        if scratch:
            print(f"adagp: generating Verilog for {config.name}", file=sys.stderr, flush=True)
            start = time.monotonic()
            generate(config, scratch / "out", _component(config, cycles_per_bit))
            (scratch / "out").rename(path)
            print(f"adagp: generated in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return path / "top.v"


def _component(config: Config, cycles_per_bit: int | None) -> wiring.Component | None:
    if cycles_per_bit is None:
        return None
    from ..rtl.top_with_link import TopWithLink  # here, because hardware takes a while to import

    return TopWithLink(config, config.clock_hz // cycles_per_bit)
