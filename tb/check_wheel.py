"""Compare a built wheel with the tree: every module and data file of a package must be in it."""

import sys
import zipfile
from pathlib import Path

PARTS = (
    "spec", "rtl", "golden", "algorithm", "gen", "sim", "synth", "host", "boards", "experiments", "evaluation", "cli",
)  # fmt: skip
PACKAGES = {"": "package", **{name: name for name in PARTS}}


def main() -> None:
    root = Path(__file__).parent.parent
    (wheel,) = Path(sys.argv[1]).glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        "/".join(part for part in ("adagp", package, str(path.relative_to(root / folder))) if part)
        for package, folder in PACKAGES.items()
        for path in (root / folder).rglob("*")
        if path.suffix in (".py", ".cpp", ".h", ".vlt")
    }
    missing = sorted(wanted - inside)
    assert wanted and not missing, f"not in {wheel.name}: {missing}"
    print(f"{wheel.name}: {len(wanted)} files, all there")


if __name__ == "__main__":
    main()
