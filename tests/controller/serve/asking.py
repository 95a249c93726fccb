"""A server with the questions' pages, and those who ask."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from scheduler.compose import build_profiles
from scheduler.config.loading import load
from scheduler.controller.loop import read_clock
from scheduler.controller.serve.questions import Questions
from scheduler.engine.questions.trial import Basis
from tests.controller.serve.rights import Rights, guarded, served
from tests.engine.driver import Cluster
from tests.engine.questions.asking import OWNER

PATH = "/debug/what-if"


def basis(text: bytes) -> Callable[[], Basis]:
    return partial(Basis, build_profiles(load(text)))


class Asked(Rights):
    """``questions``: those that the server answers."""

    questions: Questions


@asynccontextmanager
async def asking(
    cluster: Cluster, folder: Path | None = None, read: Callable[[bytes], Callable[[], Basis]] = basis
) -> AsyncIterator[tuple[str, Asked]]:
    """The URL of a server with the questions' pages; ``folder``: access is restricted."""
    rights = Asked()
    rights.questions = Questions(cluster.engine, read_clock, read, "scheduler.example.com")
    async with guarded(rights, folder) as guards, served(rights.questions.routes(), guards) as url:
        yield url, rights


async def post(
    url: str, question: Any, path: str = PATH, token: str = "", **headers: str
) -> tuple[int, dict[str, Any]]:
    body = question if isinstance(question, bytes) else msgspec.json.encode(question)
    sent = {"Content-Type": "application/json", **headers}
    if token:
        sent["Authorization"] = f"Bearer {token}"
    async with (
        aiohttp.ClientSession() as session,
        session.post(url + path, data=io.BytesIO(body), headers=sent) as answer,
    ):
        text = await answer.text()
        return answer.status, json.loads(text) if text.startswith("{") else {"text": text}


def small() -> Cluster:
    cluster = Cluster()
    cluster.nodes_like(2, cpu="4")
    cluster.pod("web", cpu="1", node="n0", metadata=OWNER)
    return cluster
