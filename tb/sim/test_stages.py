"""The workloads of mutation and coverage on the intact accelerator: what they must show there."""

from contextlib import closing

import pytest
from adagp.golden.judge import Surroundings, judge
from adagp.host.devices.simulated import SimDevice
from adagp.spec.errors import ErrorCode
from adagp.spec.operands import WAITS

from ..coverage import workloads
from ..mutation import failing_programs, predicting, switched
from ..mutation.observations import CONFIG
from ..mutation.stages import STAGES

pytestmark = pytest.mark.timeout(900)  # the simulator may have to be built first

GOLDEN = [stage for stage in (*STAGES, *predicting.STAGES, *switched.STAGES) if stage.golden]


@pytest.mark.parametrize("stage", GOLDEN, ids=lambda stage: stage.name)
def test_what_the_golden_model_shows(stage):
    workloads.judge(stage)


def test_what_is_refused_is_with_its_code():
    with closing(SimDevice(CONFIG, memory_bytes=1 << 20)) as device:
        found = dict(failing_programs.malformed(lambda **_: device))
    around = Surroundings(1 << 20, [(0, 1 << 20)], 0, dict.fromkeys(WAITS, 0))
    refused = failing_programs.refused()
    for name, (_, *others) in refused:
        codes, index = {ErrorCode.CONFIG_MISMATCH}, 0
        if name == "no header":
            codes = {ErrorCode.NO_HEADER}
        elif len(others) > 1:
            codes, index = judge(others[0], CONFIG, around).codes, 1
        said, code, where = found[name]
        assert said == "error" and ErrorCode(code) in codes and where == index, name
    assert len(refused) > 50
    for opcode in failing_programs.BAD_OPCODES:
        assert found[f"opcode {opcode}"] == ("error", ErrorCode.BAD_OPCODE, 1)
