"""Compare a built wheel and source distribution with the tree: both hold every module and data file, and no other."""

import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SUFFIXES = (".py", ".json", ".cpp", ".h", ".vlt", ".typed")
BESIDE = {"LICENSE", "README.md", "pyproject.toml"}
"""Files of the source distribution beside the packages."""


def tree() -> set[str]:
    """Files of the packages, as the wheel names them."""
    found = set()
    for init in ROOT.glob("*/__init__.py"):
        folder = init.parent
        for path in folder.rglob("*"):
            if path.suffix in SUFFIXES:
                found.add(f"adagp/{path.relative_to(folder if folder.name == 'package' else ROOT).as_posix()}")
    return found


def in_wheel(path: Path) -> set[str]:
    names = zipfile.ZipFile(path).namelist()
    return {name for name in names if ".dist-info/" not in name}


def in_sdist(path: Path) -> set[str]:
    """Files of the packages in a source distribution, as the wheel names them."""
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= BESIDE, f"not in {path.name}: {BESIDE - names}"
    inside = {name for name in names if Path(name).suffix in SUFFIXES and "/" in name}
    return {f"adagp/{name.removeprefix('package/')}" for name in inside}


def main() -> None:
    folder = Path(sys.argv[1])
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    wanted = tree()
    for path, found in ((wheel, in_wheel(wheel)), (sdist, in_sdist(sdist))):
        assert wanted and found == wanted, f"{path.name}: lacks {wanted - found}, has besides {found - wanted}"
        print(f"{path.name}: {len(found)} files, those of the tree")


if __name__ == "__main__":
    main()
