"""The identity of a configuration's hardware: a digest of the Verilog that is generated for it.

Comments, docstrings and the places of source files have no part in it: two commits that generate the same Verilog have
the same hardware, and a figure measured at one is a figure of the other.
"""

import json
import re
from dataclasses import replace

from ..spec.config import VARIANTS, Config
from .cache import digest, entry
from .generator_sources import generator_sources

__all__ = ["hardware_digest", "text_digest"]

_COMMENT = re.compile(r"^ */\*.*?\*/\n|^ *//.*\n| *//.*$", re.MULTILINE)


def text_digest(verilog: str) -> str:
    """Digest of Verilog without its comments, which name the tool that wrote it."""
    return digest(_COMMENT.sub("", verilog))[:16]


def hardware_digest(config: Config) -> str:
    """Identity of the four designs of ``config``, whichever of them it is; made once and cached."""
    config = replace(config, variant=VARIANTS[0])
    key = digest(json.dumps(config.to_dict(), sort_keys=True), generator_sources())
    with entry(f"hardware-{config.name}-{key}") as (path, scratch):
        if scratch:
            from .generated import generated  # here, because hardware takes a while to import

            designs = (generated(replace(config, variant=variant)) for variant in VARIANTS)
            (scratch / "out").write_text(digest(*(text_digest(design.read_text()) for design in designs))[:16])
            (scratch / "out").rename(path)
    return path.read_text()
