"""``python -m tb.formal``: what ``nox -s formal`` runs."""

from .run import main

main()
