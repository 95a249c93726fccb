"""Promise: the embedded API server, on which tests and the demo run, answers as the real one does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e import provider
from e2e.connection import from_kubeconfig
from e2e.controlplane.cluster import TOKEN, ControlPlane
from scheduler.simulate.apiserver import ApiServer
from tests.contract.compare import Recording, differences, play
from tests.contract.record import RECORDED


@pytest.fixture(scope="module")
def bare() -> Iterator[ControlPlane]:
    """An API server without other clients: no controller and no kubelet acts between two requests."""
    if provider.choose() != "binaries":
        pytest.skip("the conversation needs an API server without controllers")
    with ControlPlane(kwok=False, controllers=()) as controlplane:
        yield controlplane


async def test_the_embedded_server_answers_as_kube_apiserver_does(bare: ControlPlane) -> None:
    real = await play(from_kubeconfig(bare.kubeconfig()).url, TOKEN)
    async with ApiServer() as server:
        embedded = await play(server.url)
    assert differences(real, embedded) == []


async def test_the_recorded_answers_are_still_those_of_kube_apiserver(bare: ControlPlane) -> None:
    real = await play(from_kubeconfig(bare.kubeconfig()).url, TOKEN)
    assert differences(Recording.from_json(RECORDED.read_text()), real) == []
