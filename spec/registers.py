"""The register map: CSRs on the AXI4-Lite port, as data."""

from dataclasses import dataclass
from enum import IntEnum, IntFlag

__all__ = [
    "AS_SCHEDULED", "COUNTERS", "N_REGIONS", "REGISTERS", "Access", "Control", "Register", "Status", "register",
]  # fmt: skip

N_REGIONS = 4
"""Write regions that can be declared."""

AS_SCHEDULED = 4
"""In PHASE, of variants with a predictor: the schedule says each batch's phase."""


class Access(IntEnum):
    """Who may do what: read-only, read-write, write-only with an effect."""

    RO = 0
    RW = 1
    WO = 2


class Control(IntFlag):
    """Bits of CONTROL; each acts when written as 1."""

    START = 1
    """Run the program at PROGRAM from its first command, for BATCHES batches."""
    RESUME = 2
    """Go on after a HOST command."""
    CLEAR = 4
    """Forget an error and stop; finish outstanding memory transactions and return to idle."""
    RESET_COUNTERS = 8
    """Set the performance counters to zero."""


class Status(IntFlag):
    """Bits of STATUS."""

    BUSY = 1
    """A program is running (also while it waits at HOST), or a reset is going through the machine."""
    HOST = 2
    """Waiting at a HOST command for RESUME."""
    DONE = 4
    """The program has ended since the last START."""
    ERROR = 8
    """Stopped by an error: see ERROR and ERROR_INDEX."""


@dataclass(frozen=True)
class Register:
    """A 32-bit register at byte ``offset``; those that ``predicts`` are only in variants with a predictor."""

    name: str
    offset: int
    access: Access
    doc: str
    predicts: bool = False


COUNTERS = (
    ("cycles", "clock cycles while a program runs and isn't waiting at HOST"),
    ("macs", "multiply-accumulates of valid operands (padding and dilation zeros included)"),
    ("array_cycles", "cycles in which the array took a vector"),
    ("stall_a", "array idle, waiting for a tile of operand A"),
    ("stall_b", "array idle, waiting for a tile of operand B"),
    ("stall_load", "array idle, waiting for stationary operands"),
    ("stall_drain", "array idle, waiting for the accumulator to be drained"),
    ("stall_idle", "array idle, no GEMM given"),
    ("read_bytes", "bytes of read beats taken from memory"),
    ("write_bytes", "bytes written to memory (valid strobes)"),
    ("saturations", "results cut to the largest mantissa"),
    ("commands", "commands executed"),
    ("predictor_macs", "multiply-accumulates of the predictor's own array"),
    ("predictor_cycles", "cycles in which it took a vector"),
    ("predictor_bytes", "bytes read from and written to the predictor memory"),
)
"""Performance counters: 64 bits each, one set per phase (warm-up, BP, GP, evaluation)."""

_BASE = (
    ("ID", Access.RO, "0x41444750 (ADGP)"),
    ("VERSION", Access.RO, "version of the contract"),
    ("CONFIG_HASH", Access.RO, "digest of the configuration a program must be assembled for"),
    ("CONTROL", Access.WO, "see Control"),
    ("STATUS", Access.RO, "see Status"),
    ("ERROR", Access.RO, "error code, see ErrorCode"),
    ("ERROR_INDEX", Access.RO, "index in the program of the command that failed"),
    ("IRQ_ENABLE", Access.RW, "1: interrupt while HOST, DONE or ERROR is set in STATUS"),
    ("PROGRAM", Access.RW, "byte address of the program, a multiple of 128"),
    ("PHASE", Access.RW, "index of the phase to run in: 0 warm-up, 1 BP, 2 GP, 3 evaluation, 4 as scheduled"),
    ("BATCHES", Access.RW, "batches to run at START"),
    ("BATCH", Access.RW, "batches counted so far; selects the entry of the input ring"),
    ("CALIBRATE", Access.RW, "1: run each command twice, the first time only to find exponents"),
    ("RING_BASE", Access.RW, "input ring: byte address of entry 0"),
    ("RING_STRIDE", Access.RW, "input ring: bytes from entry to entry"),
    ("RING_COUNT", Access.RW, "input ring: entries"),
    ("RING_INDEX", Access.RW, "input ring: current entry"),
    ("PREDICTOR", Access.RW, "byte address of the predictor memory, a multiple of Config.predictor_window; 0: nowhere"),
    ("TENSOR", Access.RW, "tensor number that EXPONENT shows"),
    ("EXPONENT", Access.RW, "exponents of TENSOR: bits 7:0 current, 15:8 next, 16: has a next one, 17: is a scale"),
    ("HYPER", Access.RW, "hyper-parameter index that HYPER_VALUE shows"),
    ("HYPER_VALUE", Access.RW, "bits 15:0 unsigned mantissa, 23:16 exponent (two's complement)"),
    ("COUNTER", Access.RW, "performance counter to show: phase * 16 + its place in the list"),
    ("COUNTER_LOW", Access.RO, "its bits 31:0 (latches the upper half)"),
    ("COUNTER_HIGH", Access.RO, "its bits 63:32 when COUNTER_LOW was read"),
    *(
        (f"REGION{i}_{end}", Access.RW, f"write region {i}: {doc}")
        for i in range(N_REGIONS)
        for end, doc in (("START", "first byte address"), ("END", "byte address after the last"))
    ),
)

_PREDICTS = (
    ("WARMUP_EPOCHS", Access.RW, "schedule: bits 15:0 epochs of warm-up, before its entries"),
    ("EPOCH_BATCHES", Access.RW, "schedule: batches in an epoch; 0 is as 1"),
    ("ENTRIES", Access.RW, "schedule: entries in use, 0..8, the last for as long as it goes on; 0: BP only"),
    ("ENTRY", Access.RW, "entry of the schedule, 0..7, that ENTRY_EPOCHS and ENTRY_LENGTHS show"),
    ("ENTRY_EPOCHS", Access.RW, "bits 15:0 epochs of ENTRY"),
    ("ENTRY_LENGTHS", Access.RW, "batches in a run of ENTRY: bits 15:0 GP, 31:16 BP"),
    ("POSITION_EPOCH", Access.RW, "position in the schedule: epoch of the next batch"),
    ("POSITION_BATCH", Access.RW, "position in the schedule: batches of that epoch behind it"),
    ("POSITION_RUN", Access.RW, "position in the schedule: bits 15:0 batches left of the run, bit 16: it is of GP"),
    ("PHASE_NOW", Access.RO, "index of the phase of the current batch, or the last one"),
    ("GATE", Access.RW, "1: runs of GP may begin; set by COMMIT from the quality of predictions"),
    ("SEED", Access.RW, "of random signs of gradients"),
    ("GATE_THRESHOLD", Access.RW, "squared cosine that opens GATE: bits 15:0 mantissa, 23:16 exponent, 31: is in use"),
    ("ADAM_POWER1", Access.RW, "Adam's beta1 to the power of the steps taken, as a fraction of 2^32"),
    ("ADAM_POWER2", Access.RW, "Adam's beta2 to the power of the steps taken, as a fraction of 2^32"),
)
"""In variants with a predictor; in others holes."""

REGISTERS = tuple(
    Register(name, 4 * i, access, doc, i >= len(_BASE)) for i, (name, access, doc) in enumerate((*_BASE, *_PREDICTS))
)
_BY_NAME = {r.name: r for r in REGISTERS}


def register(name: str) -> Register:
    """The register called ``name``; raises KeyError."""
    return _BY_NAME[name]
