"""Fixtures that several files make for themselves: on a control plane of their own, rooms under a name of their own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from e2e.client import Client
from e2e.controlplane.cluster import ControlPlane
from e2e.room import Room


def administrator(scope: Literal["module", "package"]) -> Any:
    """A fixture: a client with every right on the control plane that the fixture ``controlplane`` yields."""

    @pytest.fixture(scope=scope)
    def client(controlplane: ControlPlane) -> Iterator[Client]:
        with Client(controlplane.kubeconfig()) as made:
            yield made

    return client


def rooms(prefix: str) -> Any:
    """A fixture: a new room for each test, named after ``prefix``, by the fixture ``client``."""
    numbers = itertools.count(1)

    @pytest.fixture
    def room(client: Client) -> Iterator[Room]:
        with Room(client, f"{prefix}-{next(numbers)}") as made:
            yield made

    return room
