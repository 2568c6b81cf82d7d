"""``python -m tb.boards``: see :mod:`.memory_speed`."""

import sys
from pathlib import Path

if __name__ == "__main__":
    TB = Path(__file__).parents[1]
    # Benches import each other by bare names.
    sys.path[:0] = [str(TB / folder) for folder in ("support", "cocotb", "boards", "boards/memory")]
    from memory_speed import main

    main()
