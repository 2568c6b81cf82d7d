"""The DRAM controller of a board: a LiteDRAM core as Verilog, and what a host must know to start it.

LiteDRAM's own generator of stand-alone cores makes it, without a processor: the host initialises and calibrates
through registers (:mod:`adagp.boards.memory.ddr3`), over an AXI4-Lite slave that this module adds. Needs the
packages of
the extra ``boards``.
"""

import json
import logging
import re
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .errors import BoardError
from .memory.controller import COMMANDS, CONTROLS, DramController, InitStep

__all__ = ["CSR_PAGE", "MODULE", "PORT", "DramPhy", "controller_of", "emit", "make_core", "settings", "tidy"]

MODULE = "litedram_core"
"""Name of the Verilog module."""

CSR_PAGE = 0x400
"""Bytes of a register page: three of them must lie within the 12 bits of address that the link's bus has."""

PORT = "accelerator"
"""Name of the AXI4 port."""

_BIDIRECTIONAL = re.compile(r"^    (?:in|out)put  wire( +\[\d+:0\])?( +)(ddram_(?:dq|dqs_p|dqs_n)\b)", re.MULTILINE)


@dataclass(frozen=True)
class DramPhy:
    """A board's memory, by LiteDRAM's names: ``phy`` of :mod:`litedram.phy`, ``part`` of :mod:`litedram.modules`.

    ``clocks``: those that the generator asks for beside the system's, in Hz. ``rate``: memory clocks in a system clock.
    """

    phy: str
    part: str
    device: str
    lanes: int
    rate: int
    clocks: tuple[tuple[str, int], ...]
    more: tuple[tuple[str, object], ...] = ()

    @property
    def width(self) -> int:
        """Data bits of the controller's port: a burst of 8 words. LiteDRAM's converters to others don't work."""
        return 8 * 8 * self.lanes


def _litedram():
    try:
        import litedram.gen
    except ImportError as error:
        raise BoardError(f"boards need LiteDRAM ({error}): pip install 'adagp[boards]'") from None
    return litedram


@contextmanager
def _quiet():
    """LiteX reports each step of a build at this level."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(before)


def settings(memory: DramPhy, id_bits: int, clock_hz: int, input_hz: int) -> dict:
    """Settings of LiteDRAM's generator for a board's memory and an AXI4 port of its width."""
    litedram = _litedram()
    return {
        "cpu": None, "device": memory.device, "memtype": "DDR3",
        "sdram_module": getattr(litedram.gen.litedram_modules, memory.part), "sdram_module_nb": memory.lanes,
        "sdram_rank_nb": 1, "sdram_phy": getattr(litedram.gen.litedram_phys, memory.phy),
        "input_clk_freq": float(input_hz), "sys_clk_freq": float(clock_hz),
        **{name: float(hz) for name, hz in memory.clocks}, **dict(memory.more),
        "user_ports": {PORT: {"type": "axi", "id_width": id_bits, "data_width": memory.width}},
    }  # fmt: skip


def make_core(core_settings: dict, platform=None):
    """LiteDRAM's core with an AXI4-Lite slave ``csr`` for its registers; a LiteX ``platform`` replaces the device's."""
    from litedram.gen import LiteDRAMCore
    from litex.soc.interconnect.axi import AXILiteInterface

    platform = platform or _platform(core_settings)
    core = LiteDRAMCore(platform, core_settings, csr_paging=CSR_PAGE)
    bus = AXILiteInterface(data_width=32, address_width=32)
    core.bus.add_master("host", master=bus)
    platform.add_extension(bus.get_ios("csr"))
    core.comb += bus.connect_to_pads(platform.request("csr"), mode="slave")
    return core


def _platform(core_settings):
    from litex.build.lattice import LatticePlatform
    from litex.build.xilinx import XilinxPlatform

    if core_settings["sdram_phy"].__name__ == "ECP5DDRPHY":
        return LatticePlatform(core_settings["device"], io=[], toolchain="trellis")
    return XilinxPlatform(core_settings["device"], io=[], toolchain="vivado")


def emit(core_settings: dict, directory: Path) -> DramController:
    """Write ``litedram_core.v``, for a process's first core always the same; returns the core's description.

    For Vivado also ``litedram_core.xdc``, with the paths that aren't to be timed.

    Ports: ``clk`` and ``rst`` in, ``user_clk`` and ``user_rst`` out for the accelerator, ``pll_locked``, ``init_done``
    and ``init_error`` (two registers that the host writes), ``csr_*`` (AXI4-Lite), ``user_port_accelerator_*`` (AXI4;
    closed until the host has written ``init_done``), ``ddram_*``, ``wb_ctrl_*`` (unused).
    """
    _litedram()
    from litex.soc.integration.builder import Builder

    with _quiet(), tempfile.TemporaryDirectory() as scratch:
        core = make_core(core_settings)
        builder = Builder(core, output_dir=scratch, compile_gateware=False, compile_software=False)
        builder.build(build_name=MODULE, regular_comb=False)
        made = Path(scratch) / "gateware"
        (directory / f"{MODULE}.v").write_text(tidy((made / f"{MODULE}.v").read_text()))
        if (made / f"{MODULE}.xdc").exists():
            lines = (made / f"{MODULE}.xdc").read_text().splitlines()
            timing = [line for line in lines if line.startswith(("set_false_path", "set_max_delay"))]
            (directory / f"{MODULE}.xdc").write_text("\n".join([*timing, ""]))
    return controller_of(core, core_settings)


def tidy(text: str) -> str:
    """LiteX's Verilog, the same for every run, and with data pins as inouts: bits of them go to cells, unnoticed."""
    text = re.sub(r"^// +(Date|LiteX sha1|Auto-Generated by LiteX on) .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^/\*.*?^\*/\n", "", text, flags=re.MULTILINE | re.DOTALL)  # cells are listed in any order
    return _BIDIRECTIONAL.sub(lambda found: f"    inout  wire{found[1] or ''}{found[2]}{found[3]}", text)


def _number(value):
    """Some PHYs keep a setting in a register, whose first value it is then."""
    return getattr(getattr(value, "reset", None), "value", value)


def _step(comment, address, bank, command, cycles):
    names = command.split("|")
    control = names[0].startswith("DFII_CONTROL")
    table, prefix = (CONTROLS, "DFII_CONTROL_") if control else (COMMANDS, "DFII_COMMAND_")
    value = sum(table[name.removeprefix(prefix).lower()] for name in names)
    return InitStep(comment, address, bank, control, value, cycles)


def controller_of(core, core_settings: dict) -> DramController:
    """The description of a finished core."""
    from litedram.init import get_sdram_phy_init_sequence
    from litex.soc.integration.export import get_csr_json

    controller = core.sdram.controller.settings
    phy, geometry = controller.phy, controller.geom
    if phy.write_leveling or phy.write_latency_calibration:
        raise BoardError(f"{phy.phytype}: writes need to be calibrated too, which the host can't do")
    sequence, _ = get_sdram_phy_init_sequence(phy, controller.timing)
    places = json.loads(get_csr_json(core.csr_regions))["csr_registers"]
    registers = {name: (place["addr"], place["size"]) for name, place in places.items()}
    address_bits = geometry.bankbits + geometry.rowbits + geometry.colbits
    return DramController(
        phy=phy.phytype, clock_hz=int(core_settings["sys_clk_freq"]), data_bits=phy.databits, lanes=phy.strobes,
        phases=phy.nphases, phase_bits=phy.dfi_databits, read_phase=_number(phy.rdphase),
        write_phase=_number(phy.wrphase), delays=phy.delays, bitslips=phy.bitslips,
        memory_bytes=(phy.databits // 8) << address_bits, init=tuple(_step(*step) for step in sequence),
        registers=registers,
    )  # fmt: skip
