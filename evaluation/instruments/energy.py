"""Energy of memory traffic, from the currents in the data sheet of a part."""

from dataclasses import dataclass

__all__ = ["MODULE", "Module"]


@dataclass(frozen=True)
class Module:
    """``parts`` DRAM chips beside each other; currents of one, in mA, while its banks are open.

    ``idle``: IDD3N, ``read``: IDD4R, ``write``: IDD4W. What a byte costs is what reading or writing without a pause
    takes more than that, over the bandwidth (Micron TN-41-01). Activations, refresh and termination aren't in it.
    """

    name: str
    parts: int
    volts: float
    idle: float
    read: float
    write: float
    bandwidth_bytes: int

    def _per_byte(self, current):
        return (current - self.idle) * 1e-3 * self.volts * self.parts / self.bandwidth_bytes * 1e12

    @property
    def read_pj(self) -> float:
        """Picojoules for a byte read."""
        return self._per_byte(self.read)

    @property
    def write_pj(self) -> float:
        """Picojoules for a byte written."""
        return self._per_byte(self.write)


MODULE = Module("MT41J512M8 (die E) x 8, DDR3-1600", 8, 1.5, 38, 157, 125, 12_800_000_000)
"""Eight parts of eight bits make the 64 of a module; currents as gem5's DDR3_1600_8x8 has them from the data sheet."""
