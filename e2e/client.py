"""A synchronous test client: creates many objects quickly, and waits on watches instead of sleeping.

One thread runs an event loop with one aiohttp session; `Client` is the door to it for straight-line test code.
`AsyncClient` is the same for code that lives in a loop itself, like the bench.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp

from e2e import paths
from e2e.connection import Connection, from_kubeconfig

Object = dict[str, Any]
State = dict[str, Object]
T = TypeVar("T")

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
# Admission and authorization of the API server read caches that follow its own watches.
_CACHES_LAG_SECONDS = 30


class ApiError(Exception):
    """An error answer of the API server: `status` is the HTTP status, `body` its body."""

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        super().__init__(f"{method} {path}: {status} {body[:500]}")
        self.status = status
        self.body = body


class NotInTime(AssertionError):
    """A condition was not met in time; the text describes the last state."""


class AsyncClient:
    """Requests on one pooled session. Use as an async context manager."""

    def __init__(self, connection: Connection, connections: int = 64) -> None:
        self._connection = connection
        self._connections = connections

    async def __aenter__(self) -> Self:
        self.session = aiohttp.ClientSession(
            headers=self._connection.headers,
            connector=aiohttp.TCPConnector(ssl=self._connection.tls or True, limit=self._connections),
            timeout=aiohttp.ClientTimeout(total=60),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()
        # TLS connections shut down after the session is closed; a loop that ends earlier leaves them open.
        await asyncio.sleep(0.25)

    def url(self, path: str) -> str:
        return self._connection.url + path

    async def send(
        self, method: str, path: str, body: object = None, content_type: str = "application/json", **query: str
    ) -> bytes:
        """The body of a 2xx answer. Raises `ApiError` for any other, `aiohttp.ClientError` when there was none."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type} if data is not None else {}
        url = self.url(path)
        async with self.session.request(method, url, data=data, headers=headers, params=query) as answer:
            content = await answer.read()
            if answer.status >= 300:
                raise ApiError(method, path, answer.status, content.decode(errors="replace"))
            return content

    async def create_all(self, things: Iterable[Object], in_flight: int = 32) -> list[Object]:
        """The created objects, in the order given."""
        return await self._bounded((self._create(thing) for thing in things), in_flight)

    async def delete_all(
        self, kind: str, names: Iterable[str], namespace: str | None = None, in_flight: int = 32
    ) -> None:
        """Delete at once, without grace; objects that no longer exist count as deleted."""

        async def delete(name: str) -> None:
            try:
                await self.send("DELETE", paths.one(kind, name, namespace), {"gracePeriodSeconds": 0})
            except ApiError as error:
                if error.status != 404:
                    raise

        await self._bounded((delete(name) for name in names), in_flight)

    async def _create(self, thing: Object) -> Object:
        """A pod may arrive before admission has seen its PriorityClass, whose creation was already answered."""
        path = paths.home_of(thing)
        deadline = time.monotonic() + _CACHES_LAG_SECONDS
        while True:
            try:
                created: Object = json.loads(await self.send("POST", path, thing))
            except ApiError as error:
                if "no PriorityClass with name" not in error.body or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.05)
            else:
                return created

    @staticmethod
    async def _bounded(work: Iterable[Coroutine[Any, Any, T]], limit: int) -> list[T]:
        queue = enumerate(work)
        results: dict[int, T] = {}

        async def worker() -> None:
            # Workers share the iterator, so that only `limit` coroutines exist at a time.
            for index, job in queue:
                results[index] = await job

        group = [asyncio.create_task(worker()) for _ in range(limit)]
        try:
            await asyncio.gather(*group)
        finally:
            for task in group:
                task.cancel()
        return [results[index] for index in sorted(results)]


class Client:
    """The door for tests. A context manager; all methods block, each with a limit of its own."""

    def __init__(self, kubeconfig: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="e2e-client", daemon=True)
        self._async = AsyncClient(from_kubeconfig(kubeconfig))

    def __enter__(self) -> Self:
        self._thread.start()
        self.call(self._async.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.call(self._async.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def call(self, work: Coroutine[Any, Any, T], seconds: float = 120) -> T:
        return self.spawn(work).result(seconds)

    def spawn(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start it in the client's loop, without waiting."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def create(self, thing: Object) -> Object:
        return self.create_all([thing])[0]

    def create_all(self, things: Iterable[Object], in_flight: int = 32) -> list[Object]:
        return self.call(self._async.create_all(things, in_flight))

    def create_all_meanwhile(self, things: Iterable[Object], in_flight: int = 32) -> Future[list[Object]]:
        return self.spawn(self._async.create_all(things, in_flight))

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object:
        found: Object = json.loads(self.call(self._async.send("GET", paths.one(kind, name, namespace))))
        return found

    def list(self, kind: str, namespace: str | None = None, **query: str) -> list[Object]:
        path = paths.collection(kind, namespace)
        items: list[Object] = json.loads(self.call(self._async.send("GET", path, **query)))["items"]
        return items

    def patch(self, kind: str, name: str, namespace: str | None, patch: Object, subresource: str = "") -> Object:
        """A strategic merge patch, of `/status` or another subresource when named."""
        path = paths.one(kind, name, namespace) + (f"/{subresource}" if subresource else "")
        patched: Object = json.loads(self.call(self._async.send("PATCH", path, patch, STRATEGIC_PATCH)))
        return patched

    def post(self, path: str, body: Object) -> Object:
        answer: Object = json.loads(self.call(self._async.send("POST", path, body)))
        return answer

    def wait_allowed(self, user: str, **what: Object) -> None:
        """Wait until the authorizer has seen the user's right. Raises `NotInTime`.

        `what` is ``resourceAttributes`` or ``nonResourceAttributes`` of a SubjectAccessReview.
        """
        review = {
            "kind": "SubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "spec": {"user": user, **what},
        }
        deadline = time.monotonic() + _CACHES_LAG_SECONDS
        while not self.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"]:
            if time.monotonic() > deadline:
                raise NotInTime(f"{user} may not {what} within {_CACHES_LAG_SECONDS} s")
            time.sleep(0.05)

    def delete(self, kind: str, name: str, namespace: str | None = None) -> None:
        self.delete_all(kind, [name], namespace)

    def delete_all(self, kind: str, names: Iterable[str], namespace: str | None = None) -> None:
        self.call(self._async.delete_all(kind, names, namespace))

    def watch(self, kind: str, namespace: str | None = None, **query: str) -> Watch:
        """A recording of everything that happens to a kind from now on, beginning with what is there."""
        return Watch(self, self._async, paths.collection(kind, namespace), query)


@dataclass(frozen=True, slots=True)
class Seen:
    """One watch event: seconds on the monotonic clock when it arrived, ADDED, MODIFIED or DELETED, the object."""

    at: float
    type: str
    thing: Object


class Watch:
    """A list, then a watch that reconnects; keeps the newest state by name and the whole history. A context manager.

    The client's thread writes while the test reads, so both are handed out as copies of one moment. `gaps` counts how
    often the server had forgotten our place (410), when events may be missing from the history.
    """

    def __init__(self, client: Client, async_client: AsyncClient, path: str, query: dict[str, str]) -> None:
        self._client = client
        self._async = async_client
        self._path = path
        self._query = query
        self._changed = threading.Condition()
        self._version = ""
        self._state: State = {}
        self._history: list[Seen] = []
        self.gaps = 0

    def __enter__(self) -> Self:
        self._client.call(self._list())
        self._follower = self._client.spawn(self._follow())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._follower.cancel()
        # A turn of the loop, in which the cancelled reader lets go of its connection.
        self._client.call(asyncio.sleep(0.01))

    @property
    def state(self) -> State:
        """Key (``namespace/name``, or the name alone) → the object as it was seen last."""
        with self._changed:
            return dict(self._state)

    @property
    def history(self) -> list[Seen]:
        """Everything that was seen and not taken, oldest first."""
        with self._changed:
            return list(self._history)

    def take_history(self, until: float = float("inf")) -> list[Seen]:
        """What was seen at that moment of the monotonic clock or before; the recording forgets it."""
        with self._changed:
            count = sum(seen.at <= until for seen in self._history)
            taken = self._history[:count]
            del self._history[:count]
        return taken

    def wait_until(self, condition: Callable[[State], T | None], seconds: float = 30.0, hope: str = "") -> T:
        """The first true value of `condition(state)`, evaluated after each event. Raises `NotInTime`.

        The recording stands still while the condition looks at it.
        """
        deadline = time.monotonic() + seconds
        with self._changed:
            while not (value := self._answer(condition)):
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    value = self._answer(condition)
                    if value:
                        break
                    raise NotInTime(f"{hope or self._path}: not within {seconds:.0f} s; there is:\n{self._summary()}")
            return value

    def _answer(self, condition: Callable[[State], T | None]) -> T | None:
        """None where the condition looks for an object, or a field, that has not been seen yet."""
        try:
            return condition(self._state)
        except KeyError:
            return None

    def holds_for(self, condition: Callable[[State], object], seconds: float) -> bool:
        """Whether the condition is true now and after each event of the next `seconds`: for what must not happen."""
        try:
            self.wait_until(lambda state: not condition(state), seconds)
        except NotInTime:
            return True
        return False

    def _summary(self) -> str:
        lines = []
        for name, thing in sorted(self._state.items())[:20]:
            status = thing.get("status", {})
            about = {"node": thing.get("spec", {}).get("nodeName"), "phase": status.get("phase")}
            notes = [f"{c['type']}={c['status']} {c.get('message', '')}" for c in status.get("conditions", ())]
            lines.append(f"  {name} {about} {notes[:2]} {thing.get('note', '')}")
        return "\n".join(lines) or "  nothing"

    async def _list(self) -> None:
        answer = json.loads(await self._async.send("GET", self._path, **self._query))
        self._version = answer["metadata"]["resourceVersion"]
        now = time.monotonic()
        with self._changed:
            self._state = {_key(item): item for item in answer["items"]}
            self._history.extend(Seen(now, "ADDED", item) for item in answer["items"])
            self._changed.notify_all()

    async def _follow(self) -> None:
        while True:
            # Some tests stop the server: reconnect as soon as it is back.
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, ConnectionError):
                if await self._stream_is_too_old():
                    self.gaps += 1
                    await self._list()
            await asyncio.sleep(0.05)

    async def _stream_is_too_old(self) -> bool:
        query = {**self._query, "watch": "1", "allowWatchBookmarks": "true", "resourceVersion": self._version}
        limit = aiohttp.ClientTimeout(total=None, sock_connect=5)
        async with self._async.session.get(self._async.url(self._path), params=query, timeout=limit) as answer:
            if answer.status != 200:
                return answer.status == 410
            buffer = b""
            async for chunk in answer.content.iter_any():
                *lines, buffer = (buffer + chunk).split(b"\n")
                if not all(self._take(json.loads(line)) for line in lines):
                    return True
        return False

    def _take(self, event: Object) -> bool:
        thing = event["object"]
        if event["type"] == "ERROR":
            return bool(thing.get("code") != 410)
        self._version = thing["metadata"]["resourceVersion"]
        if event["type"] == "BOOKMARK":
            return True
        with self._changed:
            self._history.append(Seen(time.monotonic(), event["type"], thing))
            if event["type"] == "DELETED":
                self._state.pop(_key(thing), None)
            else:
                self._state[_key(thing)] = thing
            self._changed.notify_all()
        return True


def _key(thing: Object) -> str:
    """``namespace/name``, or the name alone for what has no namespace."""
    metadata = thing["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else str(metadata["name"])
