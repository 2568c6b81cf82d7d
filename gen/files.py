"""Files that are written whole or not at all."""

import os
from pathlib import Path

__all__ = ["write_atomically"]


def write_atomically(path: Path, content: bytes) -> None:
    """Replace ``path`` so that at any moment it holds either the old or the new content.

    Raises OSError, which names ``path``, when the content can't be written; no partial file is left then.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException as error:
        if partial.exists():
            partial.unlink()
        if isinstance(error, OSError) and error.filename is None:  # writing doesn't name the file, opening does
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
