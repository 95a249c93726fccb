"""Every test of writes runs on both of their ways."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator

import pytest

from scheduler.controller.write.client import ApiClient, Directly
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import CredentialSource


@pytest.fixture
async def client(connection: ConnectionSettings, directly: Directly) -> AsyncIterator[ApiClient]:
    made = ApiClient(CredentialSource(connection, {}), directly=directly)
    yield made
    await made.close()


def left_in_memory(kind: type) -> int:
    """The number of its objects, those in circles of references included."""
    return sum(isinstance(one, kind) for one in gc.get_objects())
