"""Maps that a kernel covers: as a single pixel the same sums and no idle products; commands that stay as they are."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from adagp.golden import layer
from adagp.host.compiler.compiler import compile_network
from adagp.host.compiler.front_end import graph_of
from adagp.host.compiler.useful_macs import useful_macs
from adagp.host.compiler.whole_map import as_pixel
from adagp.spec.commands import Command, Opcode
from adagp.spec.opcodes import GEMMS
from adagp.spec.operands import macs
from adagp.spec.presets import preset
from torch import cat, nn

MAP = {"n": 3, "c": 5, "h": 4, "w": 3, "q": 7, "oh": 1, "ow": 1, "r": 4, "s": 3, "stride": 2, "pad_y": 0, "pad_x": 0}
SEED = 5


def test_the_pixel_has_the_same_sums_and_no_idle_products():
    rng = np.random.default_rng(SEED)
    print(f"seed {SEED}")

    def mantissas(*shape):
        return rng.integers(-32767, 32768, shape).astype(np.int16)

    x, w, dy = mantissas(3, 4, 3, 5), mantissas(7, 61), mantissas(3, 1, 1, 7)
    sums = {}
    for opcode in GEMMS:
        fields = as_pixel(opcode, MAP)
        assert fields == {**MAP, "c": 60, "h": 1, "w": 1, "r": 1, "s": 1, "stride": 1}
        own, pixel = SimpleNamespace(**MAP), SimpleNamespace(**fields)
        flat = x.reshape(3, 1, 1, 60)
        sums[opcode] = {
            Opcode.FORWARD: (layer.forward(x, w, own), layer.forward(flat, w, pixel)),
            Opcode.BACKWARD_DATA: (layer.backward_data(dy, w, own), layer.backward_data(dy, w, pixel)),
            Opcode.BACKWARD_WEIGHT: (layer.backward_weight(x, dy, own), layer.backward_weight(flat, dy, pixel)),
        }[opcode]
        command = Command(opcode, fields)
        assert macs(command) == useful_macs(command) == useful_macs(Command(opcode, MAP)) == 3 * 60 * 7
    for one, other in sums.values():
        assert np.array_equal(one.ravel(), other.ravel()) and np.any(one)


@pytest.mark.parametrize(
    ("opcode", "changed"),
    [
        (Opcode.MAXPOOL, {}),
        (Opcode.DEPTHWISE, {}),
        (Opcode.FORWARD, {"r": 3}),
        (Opcode.FORWARD, {"pad_x": 1}),
        (Opcode.FORWARD, {"oh": 2}),
        (Opcode.FORWARD, {"x_pitch": 6}),
        (Opcode.BACKWARD_DATA, {"c_pitch": 6}),
        (Opcode.BACKWARD_DATA, {"d_pitch": 6}),
        (Opcode.FORWARD, {"c": 5462}),
    ],
)
def test_others_stay_as_they_are(opcode, changed):
    fields = {**MAP, **changed}
    assert as_pixel(opcode, fields) == fields
    edge = {**MAP, "c": 5461, "c_pitch": 8}  # 65,532 channels; what is added to Y may have gaps
    assert as_pixel(Opcode.FORWARD, edge)["c"] == 65532


def test_of_a_network_maps_without_gaps_become_pixels():
    class Joined(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.last = nn.Conv2d(1, 3, 3), nn.Conv2d(1, 2, 3), nn.Linear(80, 4)
            self.own = nn.Linear(48, 4)

        def forward(self, x):
            first, second = self.first(x).relu(), self.second(x).relu()
            return self.last(cat([first, second], 1).flatten(1)) + self.own(first.flatten(1))

    config = replace(preset("tiny"), n_tensors=512)
    compiled = compile_network(graph_of(Joined(), (1, 6, 6), 2, config), 2, config)
    found = {
        (line.name.partition(".")[0], c.opcode): (c.c, c.h, c.r, c.x_pitch)
        for line in compiled.program
        if (c := line.command).opcode in GEMMS and c.q == 4
    }
    dense, gaps = (48, 1, 1, 0), (3, 4, 4, 5)  # a part of the join has gaps, its gradient has none
    ours = {("last", opcode): (80, 1, 1, 0) for opcode in GEMMS} | {("own", opcode): gaps for opcode in GEMMS}
    assert found == ours | {("own", Opcode.BACKWARD_DATA): dense}
