"""``python -m tb.boards``: see :mod:`.memory_speed`."""

import sys
from pathlib import Path

if __name__ == "__main__":
    TB = Path(__file__).parents[1]
    sys.path[:0] = [
        str(TB / "support"),
        str(TB / "cocotb"),
        str(TB / "boards"),
    ]  # benches import each other by bare names
    from memory_speed import main

    main()
