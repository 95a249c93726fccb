"""Settings and fixtures of all tests."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says more about the machine than about the code: time limits are pytest's.
settings.register_profile("tandem", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tandem")


@pytest.fixture
def without_collector() -> Iterator[None]:
    """What is in a circle of references stays."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
