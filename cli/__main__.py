"""``python -m adagp.cli``: the command line."""

from .main import main

main()
