"""The host's side of the host link: requests that arrive even if the line loses or changes bytes.

The protocol is that of :mod:`adagp.spec.link`. Requests are numbered, carried out in order, and sent again when no
answer comes. The board carries out each write once; reading twice does no harm.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ...spec.link import ANSWER, FLAG, IDENTITY, LINK_VERSION, MAX_PAYLOAD, WINDOW, Kind, Outcome, n_bytes
from .device import DeviceError
from .frames import Unframer, frame, request
from .port import Identity, SerialPort, Statistics

__all__ = ["PATIENCE", "Link", "LinkError"]

PATIENCE = 0.25
"""Seconds without an answer before the unanswered requests are sent again, besides the time that bytes take."""

LONGEST_PATIENCE = 2.0
"""Seconds up to which the patience doubles from one repetition to the next; a longer one stays as it is."""

RETRIES = 8
"""Repetitions of a request before the board counts as lost."""

HELLO_RETRIES = 3

WAIT_SECONDS = 0.05
"""Seconds that a WAIT for the interrupt should take at most."""

_HEAD = sum(part.size for part in ANSWER if part.name in ("sequence", "kind"))
_BITS = 10
"""Bits on the line for a byte."""


class LinkError(DeviceError):
    """The board can't be reached, or isn't the expected one; the message says which, and what it was asked."""


@dataclass
class _Pending:
    """A request without an answer."""

    sequence: int
    kind: Kind
    frame: bytes
    asked: str
    take: Callable[[bytes], None]
    timed_out: bool = False


class Link:
    """A host at the end of ``line``, which takes ``baud`` bits a second; :meth:`hello` comes first.

    ``patience``: see :data:`PATIENCE`; a simulation, or a line through a network, may need more. All methods raise
    LinkError when a request stays unanswered or the board's bus refuses it.
    """

    def __init__(self, line: SerialPort, baud: int, patience: float = PATIENCE):
        self.statistics = Statistics()
        self._line, self._unframer = line, Unframer()
        self._patience = patience + 2 * _BITS * MAX_PAYLOAD / baud
        self._sequence = 0
        self._pending: deque[_Pending] = deque()
        self._asked_again: set[int] = set()  # requests repeated since the board was seen to have missed something
        self._late: set[int] = set()  # requests answered once, though repeated after a time-out
        self._wait_cycles = 1 << 12
        self.irq = False

    # --- what can be asked ------------------------------------------------------------------------

    def hello(self) -> Identity:
        """Begin anew and return who is there. Raises LinkError for another version of the protocol."""
        self._line.write(bytes([FLAG]))
        self._line.timeout = self._patience / 8
        end = self._line.clock() + self._patience
        while self._line.read(4096) and self._line.clock() < end:  # answers to a host before this one
            pass
        self._pending.clear()
        body: list[bytes] = []
        self._post(Kind.HELLO, 0, 0, "who it is", take=body.append)
        self._finish(HELLO_RETRIES)
        version = int.from_bytes(body[0][: IDENTITY[0].size], "little")
        if version != LINK_VERSION:
            raise LinkError(f"the board speaks version {version} of the link's protocol, this host {LINK_VERSION}")
        values, place = {}, 0
        for part in IDENTITY:
            values[part.name] = int.from_bytes(body[0][place : place + part.size], "little")
            place += part.size
        return Identity(**values)

    def read_register(self, address: int, dram: bool = False) -> int:
        """A register of the accelerator, or of the memory controller."""
        got: list[bytes] = []
        kind = Kind.READ_DRAM_CSR if dram else Kind.READ_CSR
        self._post(kind, 4, address, f"register {address:#05x}", take=got.append)
        self._finish()
        return int.from_bytes(got[0], "little")

    def write_register(self, address: int, value: int, dram: bool = False) -> None:
        """Set a register; returns before it is set."""
        payload = (value & 0xFFFFFFFF).to_bytes(4, "little")
        kind = Kind.WRITE_DRAM_CSR if dram else Kind.WRITE_CSR
        self._post(kind, 4, address, f"to set register {address:#05x}", payload)

    def write(self, address: int, data: bytes, progress: Callable[[int], None] | None = None) -> None:
        """Write memory; returns when it is done. ``progress`` is called with the bytes sent so far."""
        for start in range(0, len(data), MAX_PAYLOAD):
            part = data[start : start + MAX_PAYLOAD]
            place = address + start
            self._post(Kind.WRITE_MEMORY, len(part), place, f"to write {len(part)} bytes at {place:#x}", part)
            if progress is not None:
                progress(start + len(part))
        self._finish()
        self.statistics.payload_bytes += len(data)

    def read(self, address: int, size: int, progress: Callable[[int], None] | None = None) -> bytes:
        """Read ``size`` bytes of memory. ``progress`` is called with the bytes asked for so far."""
        result = bytearray(size)

        def taker(start, length):
            def take(data):
                result[start : start + length] = data

            return take

        for start in range(0, size, MAX_PAYLOAD):
            length, place = min(MAX_PAYLOAD, size - start), address + start
            asked = f"for {length} bytes at {place:#x}"
            self._post(Kind.READ_MEMORY, length, place, asked, take=taker(start, length))
            if progress is not None:
                progress(start + length)
        self._finish()
        self.statistics.payload_bytes += size
        return bytes(result)

    def wait(self) -> bool:
        """Wait for the interrupt, some hundredths of a second at most; returns whether it is raised."""
        began = self._line.clock()
        self._post(Kind.WAIT, 0, self._wait_cycles, "to wait for the interrupt")
        self._finish()
        took = self._line.clock() - began
        if took > WAIT_SECONDS:
            self._wait_cycles = max(1 << 8, self._wait_cycles // 2)
        elif not self.irq and took < WAIT_SECONDS / 4:
            self._wait_cycles = min(1 << 20, self._wait_cycles * 2)
        return self.irq

    def finish(self) -> None:
        """Return once all requests are carried out."""
        self._finish()

    # --- requests and answers -----------------------------------------------------------------------

    def _post(self, kind, length, address, asked, payload=b"", take=lambda _: None):
        """Send a request; ``take`` is called with the bytes that it reads."""
        while len(self._pending) >= WINDOW:
            self._receive(RETRIES)
        data = frame(request(self._sequence, kind, length, address, payload))
        self._pending.append(_Pending(self._sequence, kind, data, asked, take))
        self._late.discard(self._sequence)
        self._sequence = (self._sequence + 1) % 256
        self.statistics.requests += 1
        self._send(data)

    def _finish(self, retries=RETRIES):
        self.statistics.round_trips += bool(self._pending)
        while self._pending:
            self._receive(retries)

    def _send(self, data):
        self.statistics.bytes_sent += len(data)
        self._line.write(data)

    def _repeat(self, pending):
        self.statistics.repeated += 1
        self._send(pending.frame)

    def _receive(self, retries):
        """Return when an answer has come, repeating requests until then."""
        patience = self._patience
        for attempt in range(retries + 1):
            if self._listen(patience):
                return
            self.statistics.time_outs += 1
            if attempt < retries:
                for pending in self._pending:
                    pending.timed_out = True
                    self._repeat(pending)
                self._asked_again.clear()
                patience = min(2 * patience, max(LONGEST_PATIENCE, self._patience))
        raise LinkError(f"{self._silence()} after {retries} repetitions; it was asked {self._pending[0].asked}")

    def _silence(self):
        counts = self.statistics
        if not counts.bytes_received:
            return "the board doesn't answer at all (another port, another baud rate, no bitstream, no power?)"
        if counts.bytes_received and self._unframer.bad and counts.requests == 1:
            return f"{counts.bytes_received} bytes came, but no answer (another baud rate?)"
        return "the board doesn't answer any more"

    def _listen(self, seconds):
        """Receive for at most ``seconds``; returns whether a pending request was answered."""
        end = self._line.clock() + seconds
        while (left := end - self._line.clock()) > 0:
            self._line.timeout = left
            data = self._line.read(max(1, self._line.in_waiting))
            self.statistics.bytes_received += len(data)
            answers = self._unframer.feed(data)
            self.statistics.bad_frames = self._unframer.bad
            if sum(self._take(answer) for answer in answers):
                return True
        return False

    def _take(self, body):
        """Take an answer; returns whether it completes a pending request."""
        sequence, outcome = body[0], Outcome(body[-1])
        if outcome & Outcome.STRANGER and self._pending and self._pending[0].kind != Kind.HELLO:
            self._pending.clear()
            raise LinkError("the board was reset, or has lost its power, and with it all that was on it")
        if outcome & (Outcome.EARLY | Outcome.STRANGER):
            self._missed(sequence)
            return False
        found = next((p for p in self._pending if p.sequence == sequence and p.kind == body[1]), None)
        if found is None:
            if sequence in self._late:  # a second answer, so the first one was only late
                self._patience = min(1.2 * self._patience, LONGEST_PATIENCE)
                self._late.discard(sequence)
            return False
        if outcome & Outcome.FAULT:
            self._pending.clear()
            raise LinkError(f"a bus of the board refused an access, when it was asked {found.asked} or before")
        self.irq = bool(outcome & Outcome.IRQ)
        for earlier in list(self._pending):
            if earlier is found:
                break
            if earlier.kind.writes:  # done, for requests are carried out in order
                self._pending.remove(earlier)
            elif earlier.sequence not in self._asked_again:
                self._asked_again.add(earlier.sequence)
                self._repeat(earlier)
        found.take(body[_HEAD : -ANSWER[-1].size])
        self._pending.remove(found)
        if found.timed_out:
            self._late.add(sequence)
        self._asked_again.discard(sequence)
        return True

    def _missed(self, sequence):
        """Repeat the request with this number, for which the board waits, and all after it, but only once."""
        if sequence in self._asked_again or all(pending.sequence != sequence for pending in self._pending):
            return
        self._asked_again.add(sequence)
        self.statistics.lost_requests += 1
        for pending in self._pending:
            self._repeat(pending)


assert n_bytes(ANSWER) == _HEAD + ANSWER[-1].size
