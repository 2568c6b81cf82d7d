"""The roofline of an accelerator (Williams et al., CACM 2009), and where measured commands lie below it."""

from ...spec.config import Config

__all__ = ["WAITING", "attainable", "bandwidth", "judge", "knees"]

WAITING = 0.1
"""Share of the cycles: an array that waits longer, for operands or for results to leave, is memory-bound."""


def bandwidth(config: Config) -> float:
    """Bytes per cycle of the memory."""
    return config.dram.bandwidth_bytes / config.clock_hz


def attainable(intensity: float, config: Config) -> float:
    """The roofline: most MACs per cycle of work that has ``intensity`` MACs for each byte of memory traffic."""
    return min(config.n_pes, intensity * bandwidth(config))


def judge(row: dict, config: Config) -> dict:
    """Both verdicts on a measured command, and how close it came to the roofline.

    ``intensity`` is MACs per byte moved, of beats whole or partly used; ``ridge`` that below which the roofline slopes;
    ``waiting`` the share of cycles without operands, ``blocked`` that without work, for results couldn't leave (or the
    sequencer was late): a memory too slow for reads shows in the former, one too slow for writes in the latter.
    """
    intensity = row["macs"] / (config.beat_bytes * (row["dram_read_beats"] + row["dram_write_beats"]))
    ridge, rate = config.n_pes / bandwidth(config), row["macs"] / row["cycles"]
    waiting = (row["stall_a"] + row["stall_b"]) / row["cycles"]
    blocked = (row["stall_drain"] + row["stall_idle"]) / row["cycles"]
    by_roofline, by_counters = intensity < ridge, waiting + blocked > WAITING
    return {
        "intensity": round(intensity, 4), "ridge": round(ridge, 4), "macs_per_cycle": round(rate, 4),
        "attainable": round(attainable(intensity, config), 4),
        "of_roofline": round(rate / attainable(intensity, config), 5), "waiting": round(waiting, 5),
        "blocked": round(blocked, 5), "memory_bound_by_roofline": by_roofline, "memory_bound_by_counters": by_counters,
        "agree": by_roofline == by_counters,
    }  # fmt: skip


def knees(rows: list[dict]) -> list[dict]:
    """For each layer, direction and port the PEs of the smallest array that is memory-bound, by either; 0: none is."""
    found = []
    for layer, direction, port in sorted({(row["layer"], row["direction"], row["port"]) for row in rows}):
        same = [row for row in rows if (row["layer"], row["direction"], row["port"]) == (layer, direction, port)]
        by = {
            name: min((row["pes"] for row in same if row[f"memory_bound_by_{name}"]), default=0)
            for name in ("roofline", "counters")
        }
        found.append({"layer": layer, "direction": direction, "port": port, **by, "agree": len(set(by.values())) == 1})
    return found
