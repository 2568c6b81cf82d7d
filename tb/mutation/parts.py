"""Parts of the campaign: each breaks one configuration, and has blocks, stages and waivers of its own."""

from collections.abc import Mapping
from dataclasses import dataclass

from adagp.spec.config import Config
from amaranth.lib import wiring

from . import predicting, stages, switched
from .netlist import BLOCKS, PREDICTING_BLOCKS, SWITCHED_BLOCKS
from .observations import CONFIG, PREDICTING, SWITCHED, Stage
from .waivers import ARGUED, PREDICTING_ARGUED, SWITCHED_ARGUED

__all__ = ["PARTS", "Part"]


@dataclass(frozen=True)
class Part:
    """Mutants of ``config``: in all files of rtl/, or in those that the baseline doesn't use and in ``others``.

    ``blocks`` have benches of their own. ``bench``: the module of the top's ``stages``. ``figures``: the beginning of
    its figures' names. ``count``: mutants, at least.
    """

    config: Config
    blocks: tuple[type[wiring.Component], ...]
    bench: str
    stages: list[Stage]
    argued: Mapping[str, tuple[str, str]]
    figures: str
    everywhere: bool = False
    others: frozenset[str] = frozenset()
    count: int = 250


PARTS = {
    "mutation": Part(CONFIG, BLOCKS, "stages", stages.STAGES, ARGUED, "", everywhere=True),
    "mutation_predicting": Part(
        PREDICTING, PREDICTING_BLOCKS, "predicting", predicting.STAGES, PREDICTING_ARGUED, "predicting_"
    ),
    "mutation_switched": Part(
        SWITCHED, SWITCHED_BLOCKS, "switched", switched.STAGES, SWITCHED_ARGUED, "switched_",
        others=frozenset({"compute.pool", "drain.epilogue"}), count=200,
    ),
}  # fmt: skip
"""By their names in results/robustness.json."""
