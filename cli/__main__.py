"""``python -m adagp.boards``: the command line, boards included."""

from .cli import main

main()
