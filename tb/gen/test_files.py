"""Files that are written whole or not at all, when the disk is full too."""

import errno
import os
import resource

import pytest
from adagp.gen.files import write_atomically


@pytest.fixture
def small_files():
    """No file of this process may grow beyond 1,000 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_that_cannot_grow_is_named_and_leaves_nothing(tmp_path, small_files):
    path = tmp_path / "checkpoint.npz"
    write_atomically(path, b"old")
    with pytest.raises(OSError) as error:
        write_atomically(path, bytes(2000))
    assert error.value.errno == errno.EFBIG and error.value.filename == str(path)
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("fails", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_full_disk_or_an_interrupt_leaves_nothing(tmp_path, monkeypatch, fails):
    path = tmp_path / "checkpoint.npz"

    def fsync(_):
        raise fails

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(type(fails)) as error:
        write_atomically(path, b"new")
    assert not list(tmp_path.iterdir())
    if isinstance(fails, OSError):
        assert (error.value.errno, error.value.filename) == (errno.ENOSPC, str(path))
