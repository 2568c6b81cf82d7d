"""The accelerator's netlist, taken apart into the blocks that mutation testing puts under benches of their own."""

import re

import pytest
from adagp.rtl.top import Top


def constant(module, signal):
    """True if a signal of a module in RTLIL is one of these, or an OR of them alone."""
    if re.fullmatch(r"\d+'[01]+", signal):
        return True
    for cell in re.finditer(r"^  cell \$or .*?^  end$", module, re.MULTILINE | re.DOTALL):
        ports = dict(re.findall(r"connect \\(\w) (.*)", cell[0]))
        if ports["Y"] == signal:
            return constant(module, ports["A"]) and constant(module, ports["B"])
    return False


@pytest.mark.parametrize("name", ["mutation", "mutation_predicting", "mutation_switched"])
def test_every_block_is_an_instance_with_a_reset(tools, name):
    netlist, part = tools("tb.mutation.netlist"), tools("tb.mutation.parts").PARTS[name]
    names = {block.__name__ for block in part.blocks}
    whole, texts = netlist.assemble(Top(part.config), part.blocks)
    assert set(texts) == names
    modules = re.findall(r"^module .*?^end$", "\n".join([whole, *texts.values()]), re.MULTILINE | re.DOTALL)
    instance = re.compile(r"^  cell \\(\w+) .*?connect \\rst (.*?)\n.*?^  end$", re.MULTILINE | re.DOTALL)
    resets = {name: (module, reset) for module in modules for name, reset in instance.findall(module)}
    assert names <= set(resets)
    assert [name for name in sorted(names) if constant(*resets[name])] == []


def test_mutants_come_from_files_in_all_folders(tools):
    """Cells of the accelerator's netlist are of files all over rtl/, by their paths."""
    netlist, choice, seen = (tools(f"tb.mutation.{name}") for name in ("netlist", "choice", "observations"))
    found = choice.files("".join(netlist.netlists(Top(seen.CONFIG))))
    assert len(found) > 40 and {"core", "update.control", "control.control", "compute.pe"} <= found
    assert {name.partition(".")[0] for name in found if "." in name} >= {
        "compute", "control", "dma", "drain", "lib", "memory", "sequencer", "update",
    }  # fmt: skip
