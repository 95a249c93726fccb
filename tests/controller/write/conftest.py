"""Writes leave by two ways, on connections of our own or by aiohttp: what holds of one holds of the other."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import CredentialSource


@pytest.fixture(params=[True, False], ids=["direct", "aiohttp"])
def writes_directly(request: pytest.FixtureRequest) -> bool:
    is_direct: bool = request.param
    return is_direct


@pytest.fixture
async def client(connection: ConnectionSettings, writes_directly: bool) -> AsyncIterator[ApiClient]:
    made = ApiClient(CredentialSource(connection, {}), writes_directly=writes_directly)
    yield made
    await made.close()
