"""What a question leaves behind whose client hangs up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

from scheduler.engine.questions.trial import Basis
from scheduler.testing.documents import pod_json
from tests.controller.conftest import until
from tests.controller.serve.asking import PATH, asking, basis, post, small


async def test_who_hangs_up_while_a_configuration_is_read_asks_nothing_more_until_it_is(tmp_path: Path) -> None:
    """Its thread can't be stopped: who asks and hangs up again and again has no more than one."""
    goes_on, begun = threading.Event(), threading.Event()

    def read(text: bytes) -> Callable[[], Basis]:
        begun.set()
        goes_on.wait()
        return basis(text)

    short = {"workloads": [{"manifest": pod_json("p")}]}
    async with asking(small(), tmp_path, read) as (url, rights):
        rights.allowed = {("one", "create", PATH)}
        try:
            asked = asyncio.create_task(post(url, {**short, "configuration": "{}"}, token="one"))
            await until(begun.is_set)
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
            for _ in range(5):
                assert (await post(url, short, token="one"))[0] == 429
        finally:
            goes_on.set()
        await until(lambda: rights.questions.under_way == 0)
        assert (await post(url, short, token="one"))[0] == 200
