from __future__ import annotations

from scheduler.simulate.apiserver import ApiServer
from tests.contract.compare import Recording, differences, play
from tests.contract.record import RECORDED


async def test_the_embedded_server_answers_as_kube_apiserver_did() -> None:
    expected = Recording.from_json(RECORDED.read_text())
    async with ApiServer() as server:
        actual = await play(server.url)
    assert differences(expected, actual) == []
