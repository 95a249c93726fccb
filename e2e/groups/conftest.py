"""One control plane with the alpha gates of groups on, and the scheduler under test with the gates of each file.

A test file states its gates as ``GATES``. The API server has all of them, so that no field of a PodGroup is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.client import Client
from e2e.controlplane.cluster import ControlPlane
from e2e.fixtures import administrator, rooms
from e2e.groups.control import serving_groups, subject_with
from e2e.subject import Scheduler


@pytest.fixture(scope="package")
def controlplane() -> Iterator[ControlPlane]:
    with serving_groups() as made:
        yield made


client = administrator("package")
room = rooms("groups")


@pytest.fixture
def scheduler(
    request: pytest.FixtureRequest, controlplane: ControlPlane, client: Client, tmp_path: Path
) -> Iterator[Scheduler]:
    with subject_with(request.module.GATES, controlplane, client, tmp_path) as subject:
        yield subject
