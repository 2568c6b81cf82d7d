"""The register map: CSRs on the AXI4-Lite port, and the fields of their bits, as data."""

from enum import IntFlag

from .layout import Access, Field, Register
from .phases import PHASE_NAMES

__all__ = [
    "AS_SCHEDULED", "COUNTERS", "COUNTER_SLOTS", "DEVICE_ID", "N_PHASES", "N_REGIONS", "REGISTERS", "Control", "Status",
    "register",
]  # fmt: skip

DEVICE_ID = 0x41444750
"""The value of ID: "ADGP" in ASCII."""

N_PHASES = len(PHASE_NAMES)

N_REGIONS = 4
"""Write regions that can be declared."""

AS_SCHEDULED = N_PHASES
"""The value of PHASE that lets the schedule choose each batch's phase, in variants with a predictor."""


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


COUNTER_SLOTS = 16
"""Places that a phase has in the numbering of COUNTER."""
assert len(COUNTERS) <= COUNTER_SLOTS


def _bits(name: str, lsb: int, width: int, doc: str, signed: bool = False) -> Field:
    return Field(name, 0, lsb, width, doc, signed)


_BASE = (
    ("ID", Access.RO, f"{DEVICE_ID:#010x}: ADGP in ASCII"),
    (
        "VERSION",
        Access.RO,
        "version of the contract",
        (
            _bits("minor", 0, 16, "changes when something is added"),
            _bits("major", 16, 16, "changes when a program or driver no longer fits"),
        ),
    ),
    ("CONFIG_HASH", Access.RO, "digest of the configuration a program must be assembled for"),
    ("CONTROL", Access.WO, "see Control", max(Control).bit_length()),
    ("STATUS", Access.RO, "see Status", max(Status).bit_length()),
    ("ERROR", Access.RO, "error code, see ErrorCode", 8),
    ("ERROR_INDEX", Access.RO, "index in the program of the command that failed", 16),
    ("IRQ_ENABLE", Access.RW, "1: interrupt while HOST, DONE or ERROR is set in STATUS", 1),
    ("PROGRAM", Access.RW, "byte address of the program, a multiple of 128"),
    ("PHASE", Access.RW, "index of the phase to run in: 0 warm-up, 1 BP, 2 GP, 3 evaluation, 4 as scheduled", 3),
    ("BATCHES", Access.RW, "batches to run at START"),
    ("BATCH", Access.RW, "batches counted so far; decides what dropout draws"),
    ("CALIBRATE", Access.RW, "1: run each command twice, the first time only to find exponents", 1),
    ("RING_BASE", Access.RW, "input ring: byte address of entry 0"),
    ("RING_STRIDE", Access.RW, "input ring: bytes from entry to entry"),
    ("RING_COUNT", Access.RW, "input ring: entries"),
    ("RING_INDEX", Access.RW, "input ring: current entry"),
    ("PREDICTOR", Access.RW, "byte address of the predictor memory, a multiple of Config.predictor_window; 0: nowhere"),
    ("TENSOR", Access.RW, "tensor number that EXPONENT shows", 12),
    (
        "EXPONENT",
        Access.RW,
        "exponents of TENSOR",
        (
            _bits("cur", 0, 8, "current exponent", signed=True),
            _bits("next", 8, 8, "exponent from the next COMMIT on, where has_next", signed=True),
            _bits("fraction", 8, 8, "what a scale has beyond cur, in 1/256, where is_scale"),
            _bits("has_next", 16, 1, "1: a persistent tensor (weights, moments)"),
            _bits("is_scale", 17, 1, "1: the scale of a layer's gradients; only in variants with a predictor"),
        ),
    ),
    ("HYPER", Access.RW, "hyper-parameter index that HYPER_VALUE shows", 8),
    (
        "HYPER_VALUE",
        Access.RW,
        "mantissa * 2^exponent",
        (
            _bits("mantissa", 0, 16, "unsigned"),
            _bits("exponent", 16, 8, "of two", signed=True),
        ),
    ),
    (
        "COUNTER",
        Access.RW,
        "performance counter that COUNTER_LOW and COUNTER_HIGH show",
        (
            _bits("place", 0, (COUNTER_SLOTS - 1).bit_length(), "its number in the list of counters"),
            _bits("phase", (COUNTER_SLOTS - 1).bit_length(), (N_PHASES - 1).bit_length(), "index of the phase"),
        ),
    ),
    ("COUNTER_LOW", Access.RO, "its bits 31:0 (latches the upper half)"),
    ("COUNTER_HIGH", Access.RO, "its bits 63:32 when COUNTER_LOW was read"),
    *(
        (f"REGION{i}_{end}", Access.RW, f"write region {i}: {doc}")
        for i in range(N_REGIONS)
        for end, doc in (("START", "first byte address"), ("END", "byte address after the last"))
    ),
)

_PREDICTS = (
    ("WARMUP_EPOCHS", Access.RW, "schedule: epochs of warm-up, before its entries", 16),
    ("EPOCH_BATCHES", Access.RW, "schedule: batches in an epoch; 0 is as 1"),
    ("ENTRIES", Access.RW, "schedule: entries in use, 0..8, the last for as long as training goes on; 0: BP only", 4),
    ("ENTRY", Access.RW, "entry of the schedule, 0..7, that ENTRY_EPOCHS and ENTRY_LENGTHS show", 3),
    ("ENTRY_EPOCHS", Access.RW, "epochs of ENTRY", 16),
    (
        "ENTRY_LENGTHS",
        Access.RW,
        "batches in a run of ENTRY",
        (
            _bits("gp", 0, 16, "in a run of GP"),
            _bits("bp", 16, 16, "in a run of BP"),
        ),
    ),
    ("POSITION_EPOCH", Access.RW, "position in the schedule: epoch of the next batch"),
    ("POSITION_BATCH", Access.RW, "position in the schedule: batches of that epoch done"),
    (
        "POSITION_RUN",
        Access.RW,
        "position in the schedule: the run that the next batch belongs to",
        (
            _bits("left", 0, 16, "batches left of it; 0: another run begins"),
            _bits("gp", 16, 1, "1: a run of GP, 0: of BP"),
        ),
    ),
    ("PHASE_NOW", Access.RO, "index of the phase of the current batch, or the last one", 2),
    ("GATE", Access.RW, "1: runs of GP may begin; set by COMMIT from the quality of predictions", 1),
    ("SEED", Access.RW, "seed of the random signs of gradients, and of dropout"),
    (
        "GATE_THRESHOLD",
        Access.RW,
        "squared cosine that opens GATE: mantissa * 2^exponent",
        (
            _bits("mantissa", 0, 16, "unsigned"),
            _bits("exponent", 16, 8, "of two", signed=True),
            _bits("in_use", 31, 1, "0: COMMIT leaves GATE as it is"),
        ),
    ),
    ("ADAM_POWER1", Access.RW, "Adam's beta1 to the power of the steps taken, as a fraction of 2^32"),
    ("ADAM_POWER2", Access.RW, "Adam's beta2 to the power of the steps taken, as a fraction of 2^32"),
)
"""Registers of variants with a predictor; others read 0 there and ignore writes, except SEED where they draw."""


def _register(place: int, name: str, access: Access, doc: str, bits: int | tuple[Field, ...] = 32) -> Register:
    fields = () if isinstance(bits, int) else bits
    width = bits if isinstance(bits, int) else max(field.lsb + field.width for field in bits)
    return Register(name, 4 * place, access, doc, width, fields, place >= len(_BASE))


_ROWS: tuple[tuple, ...] = (*_BASE, *_PREDICTS)
REGISTERS = tuple(_register(place, *row) for place, row in enumerate(_ROWS))
_BY_NAME = {r.name: r for r in REGISTERS}


def register(name: str) -> Register:
    """The register called ``name``; raises KeyError."""
    return _BY_NAME[name]
