"""A cache of their own for the tests of a module; Verilog, synthesised."""

import subprocess

import pytest
from adagp.synth.ecp5 import ECP5
from adagp.synth.yosys import synthesise, yosys_command

_TO_RTLIL = "read_verilog top.v\nhierarchy -top adagp\nproc\nwrite_rtlil top.il\n"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        path = tmp_path_factory.mktemp("cache")
        patch.setenv("ADAGP_CACHE", str(path))
        yield path


@pytest.fixture
def synthesised(cache, tmp_path):
    """Folder of what Yosys makes of a module ``adagp`` on an ECP5; what is done to netlists behind it only if asked."""

    def run(verilog, after=None):
        (tmp_path / "top.v").write_text(verilog)
        (tmp_path / "top.ys").write_text(_TO_RTLIL)
        subprocess.run(yosys_command("top.ys"), cwd=tmp_path, capture_output=True, check=True, timeout=120)
        return synthesise("verilog", tmp_path / "top.il", ECP5.passes, after=after)

    return run
