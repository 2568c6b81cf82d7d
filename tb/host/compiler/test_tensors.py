"""Names of tensors: made and taken apart in one place."""

import ast
from pathlib import Path

import pytest
from adagp.host.compiler.lowering import Kind, Layer
from adagp.host.compiler.tensors import LAYER_PARTS, layer_tensor, part_of, predictor_tensor

ROOT = Path(__file__).parents[3]
LAYER = Layer(Kind.GEMM, "0.Conv2d", 1, 4, 4, 2, 4, 4)
TORCH_NAMES = {"host/compiler/lowering.py": ["f'{name}.weight'"], "host/compiler/values.py": ["f'{owner}.output'"]}
"""Names that are parameters' in a state dict, or values', by file."""


def test_names_are_made_and_taken_apart():
    assert layer_tensor(LAYER, "weight_gradient") == "0.Conv2d.weight_gradient"
    assert predictor_tensor("hidden") == "predictor.hidden"
    assert predictor_tensor("weight", "conv") == "predictor.conv.weight"
    assert [part_of(name) for name in ("0.Conv2d.weight", "predictor.hidden", "input")] == ["weight", "hidden", "input"]
    with pytest.raises(ValueError, match=r"no layer has a tensor 'wieght'; there are: output, .*weight_gradient"):
        layer_tensor(LAYER, "wieght")


def names_made(source: str) -> list[str]:
    """Formatted strings that make a tensor's name: they end with its part, or begin with the predictor's name."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            texts = [part.value if isinstance(part, ast.Constant) else "" for part in node.values] or [""]
            if texts[-1].removeprefix(".") in LAYER_PARTS or texts[0].startswith("predictor."):
                found.append(ast.unparse(node))
    return found


def test_made_names_are_found():
    source = 'f"{layer.name}.weight" + f"predictor.{name}.low" + f"{x}.bias" + f"no {weight}" + "0.weight"'
    assert names_made(source) == ["f'{layer.name}.weight'", "f'predictor.{name}.low'"]


def test_tensor_names_are_made_in_one_place():
    paths = [path for part in ("host", "evaluation") for path in (ROOT / part).rglob("*.py")]
    found = {str(path.relative_to(ROOT)): names for path in paths if (names := names_made(path.read_text()))}
    assert len(paths) > 100 and found == TORCH_NAMES
