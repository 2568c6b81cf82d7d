"""Records of findings, kept under the digest of all that they depend on, so that a record found is current."""

import json
from pathlib import Path

__all__ = ["Records"]


class Records(dict):
    """Answers by digest, those in the file ``path`` at first; each that is added is written there at once."""

    def __init__(self, path: Path):
        super().__init__()
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        for line in path.read_text().splitlines() if path.exists() else ():
            try:
                self.update([json.loads(line)])
            except ValueError:  # it was being written when its run was stopped
                continue

    def add(self, key: str, answer: dict) -> None:
        """Keep an answer."""
        self[key] = answer
        with open(self.path, "a") as file:
            file.write(json.dumps([key, answer]) + "\n")
