"""A cache of their own for the tests of a module."""

import pytest


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        path = tmp_path_factory.mktemp("cache")
        patch.setenv("ADAGP_CACHE", str(path))
        yield path
