"""What the tests of the rulebook share."""

from __future__ import annotations

import pytest

from kbind.rulebook import Rulebook, load


@pytest.fixture(scope="session")
def rulebook() -> Rulebook:
    """The bundled rules."""
    return load()
