"""What tests of every room share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kbind.testing.binaries import find_or_build
from kbind.testing.errors import ControlPlaneError


@pytest.fixture(scope="session")
def binaries() -> Path:
    """The folder of the real servers. Without one the tests that need it are skipped, unless
    KBIND_REQUIRE_REAL says that this is a failure."""
    try:
        return find_or_build()
    except ControlPlaneError as error:
        if os.environ.get("KBIND_REQUIRE_REAL"):
            raise
        pytest.skip(f"no real control plane here: {error}")
