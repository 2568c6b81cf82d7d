"""The presets: instances of :class:`~adagp.spec.config.Config`, by name."""

from .config import Config
from .dram_part import DramPart
from .validation import ConfigError

__all__ = ["DRAM_PARTS", "PRESETS", "preset"]

_MIB = 1 << 20

# Micron MT41K256M16 and MT41K128M16 (x16 DDR3), MT8JTF25664HZ (x64 SODIMM, DDR3-1600): peak bandwidth, tREFI,
# tRFC from the data sheets; latency is assumed: a closed-row read through a soft controller.
DRAM_PARTS = {
    part.name: part
    for part in (
        DramPart("ddr3-800-x16", 1_600_000_000, 512 * _MIB, 16, 90.0, 7800.0, 260.0, 15.0, 16),
        DramPart("ddr3-800-x16-256m", 1_600_000_000, 256 * _MIB, 16, 90.0, 7800.0, 160.0, 15.0, 16),
        DramPart("ddr3-1600-sodimm", 12_800_000_000, 2048 * _MIB, 64, 60.0, 7800.0, 160.0, 7.5, 32),
    )
}

PRESETS = {
    config.name: config
    for config in (
        Config(
            name="tiny", rows=4, cols=4, port_width=64, a_depth=512, b_depth=512, c_depth=256,
            acc_depth=256, n_tensors=64, n_hyper=16, update_lanes=1, clock_hz=50_000_000,
            n_filters=128, n_predicted=1152, predictor_rows=4, predictor_cols=2,
            dram=DRAM_PARTS["ddr3-800-x16"],
        ),
        Config(
            name="ecp5", rows=4, cols=4, port_width=64, a_depth=1024, b_depth=1024, c_depth=1024,
            acc_depth=512, n_tensors=256, n_hyper=16, update_lanes=1, clock_hz=100_000_000,
            n_filters=128, n_predicted=1152, predictor_rows=4, predictor_cols=2,
            registered_products=True, dram=DRAM_PARTS["ddr3-800-x16"],
        ),
        Config(
            name="ecp5_8x8", rows=8, cols=8, port_width=64, a_depth=1024, b_depth=1024, c_depth=1024,
            acc_depth=512, n_tensors=256, n_hyper=16, update_lanes=1, clock_hz=100_000_000,
            n_filters=128, n_predicted=1152, predictor_rows=2, predictor_cols=2,
            epilogue_lanes=2, update_cycles=3, registered_products=True, dram=DRAM_PARTS["ddr3-800-x16"],
        ),
        Config(
            name="paper", rows=12, cols=15, port_width=256, a_depth=4096, b_depth=4096, c_depth=4096,
            acc_depth=4096, n_tensors=4096, n_hyper=16, update_lanes=2, clock_hz=200_000_000,
            n_filters=2048, n_predicted=4608, predictor_rows=4, predictor_cols=4, predictor_depth=8,
            epilogue_lanes=5, dram=DRAM_PARTS["ddr3-1600-sodimm"],
        ),
        Config(
            name="xc7a100t", rows=8, cols=8, port_width=64, a_depth=1024, b_depth=1024, c_depth=1024,
            acc_depth=512, n_tensors=256, n_hyper=16, update_lanes=1, clock_hz=100_000_000,
            n_filters=128, n_predicted=1152, predictor_rows=2, predictor_cols=2,
            epilogue_lanes=2, update_cycles=3, dram=DRAM_PARTS["ddr3-800-x16-256m"],
        ),
        Config(
            name="xc7a200t", rows=12, cols=15, port_width=128, a_depth=2048, b_depth=2048, c_depth=2048,
            acc_depth=2048, n_tensors=1024, n_hyper=16, update_lanes=1, clock_hz=100_000_000,
            n_filters=1024, n_predicted=4608, predictor_rows=4, predictor_cols=4, predictor_depth=8,
            epilogue_lanes=5, dram=DRAM_PARTS["ddr3-800-x16"],
        ),
    )
}  # fmt: skip


def preset(name: str) -> Config:
    """The preset called ``name``; raises ConfigError listing the names there are."""
    try:
        return PRESETS[name]
    except KeyError:
        raise ConfigError(f"no preset {name!r}; there are: {', '.join(PRESETS)}") from None
