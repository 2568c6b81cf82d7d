"""The memory part behind an accelerator's port."""

from dataclasses import dataclass

from .validation import is_power_of_two, require, require_types

__all__ = ["DramPart"]


@dataclass(frozen=True)
class DramPart:
    """Timing and bandwidth of the memory behind the AXI port, as the DRAM model sees it.

    ``bandwidth_bytes`` is per second, times are in nanoseconds. ``capacity_bytes`` bounds the memory planner.
    ``burst_bytes`` is the smallest piece that the part moves. ``max_outstanding`` is the number of read bursts, and of
    write bursts, that the controller accepts before it holds off the port.

    Raises :class:`ConfigError` naming the field, its value and the inequality.
    """

    name: str
    bandwidth_bytes: int
    capacity_bytes: int
    burst_bytes: int
    latency_ns: float
    refresh_interval_ns: float
    refresh_ns: float
    turnaround_ns: float
    max_outstanding: int

    def __post_init__(self):
        require_types(self)
        for field, most in (("bandwidth_bytes", 1 << 62), ("max_outstanding", 1024)):
            value = getattr(self, field)
            require(1 <= value <= most, field, value, f"1 <= {field} <= {most}")
        size = self.capacity_bytes
        require(0 < size <= 1 << 32 and size % 4096 == 0, "capacity_bytes", size, "a multiple of 4096 in 4096..2^32")
        burst = self.burst_bytes
        small = is_power_of_two(burst) and burst <= 4096
        require(small, "burst_bytes", burst, "burst_bytes is a power of two up to 4096")
        for field in ("latency_ns", "refresh_interval_ns", "refresh_ns", "turnaround_ns"):
            require(0 <= getattr(self, field) <= 1e6, field, getattr(self, field), f"0 <= {field} <= 1e6")
        require(
            self.refresh_ns == 0 or self.refresh_ns < self.refresh_interval_ns, "refresh_ns", self.refresh_ns,
            f"refresh_ns < refresh_interval_ns({self.refresh_interval_ns})",
        )  # fmt: skip
