"""The accelerator's netlist, taken apart into the blocks that mutation testing puts under benches of their own."""

import re

import pytest
from adagp.rtl.top import Top


@pytest.mark.parametrize(("config", "blocks"), [("CONFIG", "BLOCKS"), ("PREDICTING", "PREDICTING_BLOCKS")])
def test_every_block_is_an_instance_with_a_reset(tools, config, blocks):
    netlist, seen = tools("tb.mutation.netlist"), tools("tb.mutation.seen")
    names = {block.__name__ for block in getattr(netlist, blocks)}
    whole, texts = netlist.assemble(Top(getattr(seen, config)), getattr(netlist, blocks))
    assert set(texts) == names
    everything = whole + "".join(texts.values())
    for name in names:
        (instance,) = re.findall(rf"^  cell \\{name} .*?^  end$", everything, re.MULTILINE | re.DOTALL)
        (reset,) = re.findall(r"connect \\rst (.*)", instance)
        assert "\\" in reset or "$" in reset, f"{name} is never reset: {reset}"
