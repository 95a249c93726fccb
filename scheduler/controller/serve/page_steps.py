"""The steps of the pages' handlers, timed like all others of the event loop."""

from __future__ import annotations

import types
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, TypeVar

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from scheduler.controller.step_watch import Step

Answer = TypeVar("Answer")


def watching_steps(step: Step) -> Middleware:
    """A middleware that times each step of a handler, named by the page's path as it is registered."""

    @web.middleware
    async def watch(request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        name = "page " + (resource.canonical if resource is not None else "unknown")
        return await in_steps(handler(request), step, name)

    return watch


@types.coroutine
def in_steps(work: Awaitable[Answer], step: Step, name: str) -> Generator[Any, Any, Answer]:
    """Awaits ``work`` and times what it does between one suspension and the next."""
    inner = work.__await__()
    error: BaseException | None = None
    while True:
        with step(name):
            try:
                waited_for = next(inner) if error is None else _thrown(inner, error)
            except StopIteration as end:
                answer: Answer = end.value
                return answer
        error = None
        try:
            # The result is not needed: an event loop sends None only.
            yield waited_for
        except GeneratorExit:
            if isinstance(inner, Generator | Coroutine):
                inner.close()
            raise
        except BaseException as thrown:  # noqa: BLE001 - a cancellation, for ``work`` to handle
            error = thrown


def _thrown(inner: Any, error: BaseException) -> Any:
    return inner.throw(error)
