"""Fill: the DMA engine that brings operands from memory into the scratchpads and the bias memory."""

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.microcode.descriptors import FILL, Target
from ...spec.numerics import operand_max, unpredicted
from ..lib.delay import delayed
from ..lib.interfaces import PadWrite, ReadClient, Token, descriptor_layout, descriptor_stream
from ..lib.requantise import Requantise
from .bursts import Beats, most_bits, pad_element_bits
from .fill_requests import FillRequests
from .segments import nonempty

__all__ = ["Fill"]

_LAYOUT = descriptor_layout(FILL)
_BIAS_SHIFT = 31
"""Greatest shift of a bias, in either direction."""


class Fill(wiring.Component):
    """DMA read engine: carries out :data:`adagp.spec.microcode.descriptors.FILL` descriptors.

    Parameters
    ----------
    config : Config
        decides widths and depths

    Members
    -------
    i : In(descriptor_stream(FILL))
        descriptors
    client : Out(ReadClient(config))
        reads memory
    a, b, c : Out(PadWrite(config, 2 * depth))
        writes to the scratchpads
    bias_valid, bias_start, bias_half, bias_data : Out
        biases in order, ``bias_start`` with a descriptor's first
    bias_vector : Out(1)
        biases of DEPTHWISE; with ``Config.depthwise``
    a_free, b_free, c_free : Out(Token())
        free halves of the scratchpads
    a_full, b_full, c_ready : Out(1)
        pulse once a descriptor with ``ready`` has landed: reads presented from that cycle on see its data
    fault, fault_command : Out
        pulses for each beat that the memory refused, with its command
    busy : Out(1)
        a descriptor is being carried out, or could begin

    Timing
    ------
    One beat per cycle when the memory delivers, however short the segments; clearing takes a cycle for each word. The
    pulse of ``a_full``, ``b_full`` or ``c_ready`` comes LANDING_CYCLES after the last beat.
    """

    LANDING_CYCLES = 2 + Requantise.LATENCY
    """Cycles from a descriptor's last beat to its pulse of ``a_full``, ``b_full`` or ``c_ready``."""

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "i": In(descriptor_stream(FILL)),
            "client": Out(ReadClient(config)),
            "a": Out(PadWrite(config, 2 * config.a_depth)),
            "b": Out(PadWrite(config, 2 * config.b_depth)),
            "c": Out(PadWrite(config, 2 * config.c_depth)),
            "bias_valid": Out(1), "bias_half": Out(1), "bias_start": Out(1), "bias_data": Out(signed(config.acc_width)),
            **({"bias_vector": Out(1)} if config.convolves_channels else {}),
            "a_free": Out(Token()), "b_free": Out(Token()), "c_free": Out(Token()),
            "a_full": Out(1), "b_full": Out(1), "c_ready": Out(1),
            "fault": Out(1), "fault_command": Out(_LAYOUT["command"].width), "busy": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.requests = requests = FillRequests(self._config)
        m.submodules.walk = walk = Beats(self._config, most_bits(self._config))
        wiring.connect(m, wiring.flipped(self.i), requests.i)
        wiring.connect(m, requests.request, wiring.flipped(self.client.request))
        for name in ("a_free", "b_free", "c_free"):
            wiring.connect(m, getattr(requests, name), wiring.flipped(getattr(self, name)))

        d = Signal(_LAYOUT)  # the descriptor being worked on
        half, moving, starts, landed = (Signal(name=name) for name in ("half", "moving", "starts", "landed"))
        clearing = Signal()  # a register, as the scratchpads are far away
        clear_word = Signal(pad_element_bits(self._config))
        m.d.comb += [
            walk.i.payload.eq(requests.segments.payload),
            walk.o.ready.eq(self.client.beats.valid),
            self.client.beats.ready.eq(walk.o.valid),
            moving.eq(walk.o.valid & walk.o.ready),
            self.fault.eq(moving & self.client.beats.payload.fault),
            self.fault_command.eq(d.command),
        ]
        self._offsets(m, walk, d)
        self._control(m, requests, walk, d, clear_word, clearing, starts, landed)
        self._finish(m, d, half, landed)
        self._write(m, walk, d, half, clear_word, clearing, moving)
        self._bias(m, walk, d, half, starts, moving)
        return m

    def _control(self, m, requests, walk, d, clear_word, clearing, starts, landed):
        """Carry out one descriptor after the other: clear, then move data."""
        bank_bits, queue = (self._config.banks - 1).bit_length(), requests.o
        words_left = Signal(len(d.clear) - bank_bits)  # after the one that is being cleared
        more = Signal()  # the descriptor has segments that the walk hasn't taken
        m.d.comb += [
            walk.i.valid.eq(requests.segments.valid & more), requests.segments.ready.eq(walk.i.ready & more),
        ]  # fmt: skip
        with m.If(walk.i.valid & walk.i.ready & requests.last):
            m.d.sync += more.eq(0)
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.comb += queue.ready.eq(1)
                m.d.sync += [clear_word.eq(0), d.eq(queue.payload)]
                with m.If(queue.valid):
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.sync += words_left.eq((d.clear - 1) >> bank_bits)
                with m.If(d.clear != 0):
                    m.d.sync += clearing.eq(1)
                    m.next = "CLEAR"
                with m.Else():
                    m.next = "START"
            with m.State("CLEAR"):
                m.d.sync += [clear_word.eq(clear_word + 1), words_left.eq(words_left - 1)]
                with m.If(words_left == 0):
                    m.d.sync += clearing.eq(0)
                    m.next = "START"
            with m.State("START"):
                m.d.comb += starts.eq(1)
                m.d.sync += more.eq(nonempty(d, most_bits(self._config)))
                m.next = "MOVE"
            with m.State("MOVE"), m.If(~more & walk.idle):
                m.d.comb += landed.eq(1)
                m.next = "IDLE"
        m.d.comb += self.busy.eq(requests.wanted | queue.valid | ~fsm.ongoing("IDLE"))

    def _offsets(self, m, walk, d):
        """Multiples of ``step`` for the lanes, registered."""
        multiples = [0, d.step]
        for j in range(2, self._config.beat_elements + 1):
            multiple = Signal(pad_element_bits(self._config))
            m.d.comb += multiple.eq(multiples[j - 1] + d.step if j % 2 else multiples[j // 2] << 1)
            multiples.append(multiple)
        for j, multiple in enumerate(multiples):
            m.d.sync += walk.offsets[j].eq(multiple)

    def _finish(self, m, d, half, landed):
        """Choose the half, and report once the data is where readers find it."""
        next_half = Signal(2)  # A, B
        is_a, is_b = d.target == Target.A, d.target == Target.B
        event = Cat(is_a, is_b, ~is_a & ~is_b) & (landed & d.ready).replicate(3)
        m.d.comb += half.eq(Mux(is_a, next_half[0], Mux(is_b, next_half[1], d.half)))
        m.d.sync += next_half.eq(next_half ^ event[:2])
        landed_before = delayed(m, event, self.LANDING_CYCLES - 1)
        m.d.comb += Cat(self.a_full, self.b_full, self.c_ready).eq(landed_before)

    def _write(self, m, walk, d, half, clear_word, clearing, moving):
        """Write to the scratchpads from registers: one set of lanes, and a mask for each scratchpad."""
        config = self._config
        bank_bits = (config.banks - 1).bit_length()
        n_beat, width = config.beat_elements, config.operand_width
        operands = ArrayLayout(signed(width), n_beat)(self.client.beats.payload.data)
        lanes = walk.o.payload
        cleared = Mux(d.clear_min, -operand_max(width), 0)
        words = Signal(ArrayLayout(pad_element_bits(config) - bank_bits, config.banks))
        values = Signal(ArrayLayout(signed(width), config.banks))
        rot, mask, s1_half = Signal(bank_bits), Signal(config.banks), Signal()
        m.d.comb += mask.eq(Mux(clearing, (1 << config.banks) - 1, Mux(moving, lanes.mask, 0)))
        m.d.sync += [s1_half.eq(half), rot.eq(Mux(clearing, 0, lanes.addr[0]))]
        for j, operand in enumerate(operands):  # a marking descriptor writes its mark where operands are <= 0
            with m.If(d.mark & ~clearing & (operand > 0)):
                m.d.comb += mask[j].eq(0)
        for j in range(config.banks):  # all lanes are alike while clearing; those without an operand repeat others
            lane = j % n_beat
            value = Mux(d.mark, unpredicted(width), operands[lane])
            m.d.sync += [
                words[j].eq(Mux(clearing, clear_word, lanes.addr[lane] >> bank_bits)),
                values[j].eq(Mux(clearing, cleared, value)),
            ]
        for target, pad in ((Target.A, self.a), (Target.B, self.b), (Target.C, self.c)):
            m.d.sync += pad.mask.eq(Mux(d.target == target, mask, 0))
            m.d.comb += [pad.rot.eq(rot), pad.data.eq(values)]
            word_bits = len(pad.addr[0]) - 1
            m.d.comb += [pad.addr[j].eq(Cat(words[j][:word_bits], s1_half)) for j in range(config.banks)]

    def _bias(self, m, walk, d, half, starts, moving):
        """Requantise the bias operand of a beat."""
        config = self._config
        operands = ArrayLayout(signed(config.operand_width), config.beat_elements)(self.client.beats.payload.data)
        m.submodules.requantise = requantise = Requantise(
            config.operand_width, config.acc_width, -_BIAS_SHIFT, _BIAS_SHIFT
        )  # fmt: skip
        first = Signal()
        m.d.sync += [
            requantise.i.eq(operands[walk.o.payload.first]),
            requantise.shift.eq(d.shift),
        ]
        with m.If(starts):
            m.d.sync += first.eq(1)
        with m.Elif(moving):
            m.d.sync += first.eq(0)
        flags = Cat(moving & (d.target == Target.BIAS), first, half)
        m.d.comb += [
            Cat(self.bias_valid, self.bias_start, self.bias_half).eq(delayed(m, flags, 1 + Requantise.LATENCY)),
            self.bias_data.eq(requantise.o),
        ]
        if config.convolves_channels:
            m.d.comb += self.bias_vector.eq(delayed(m, d.vector, 1 + Requantise.LATENCY))
