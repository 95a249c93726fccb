"""Runs PreBind, Bind and PostBind of user plugins in the shell, with checked answers and a time-out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from scheduler.cluster.pod_info import PodInfo
from scheduler.controller.calls.background import BackgroundCall, PluginInbox
from scheduler.controller.calls.plugin_calls import PluginCall
from scheduler.controller.report.plugin_watch import watched
from scheduler.controller.write.client import ApiClient
from scheduler.errors import type_and_message
from scheduler.framework.plugin import BackgroundPlugin, BindPlugin, PostBindPlugin, PreBindPlugin
from scheduler.framework.plugin_ports import BindContext, WaitingPod
from scheduler.framework.plugin_requests import ActivatePods, AllowWaiting, RejectWaiting
from scheduler.framework.profile import Profile
from scheduler.messages.status import Refusal, Skip
from scheduler.messages.stimuli import PermitDecided, PodsActivated
from scheduler.user_plugins.answers import check_call, check_requests
from scheduler.user_plugins.checked import is_checked
from scheduler.user_plugins.shape import defines

Answer = Refusal | Skip | None


class SharedClient:
    """The API client shared by all running plugin calls; closed when the last of them ends.

    It is separate from the scheduler's own, so that plugins can't use up the connections for bindings and events.
    """

    def __init__(self, make: Callable[[], ApiClient]) -> None:
        self._make = make
        self._client: ApiClient | None = None
        self._users = 0

    @asynccontextmanager
    async def borrowed(self) -> AsyncIterator[ApiClient]:
        """The client for the block: the first user makes it, the last one closes it."""
        if self._client is None:
            self._client = self._make()
        client = self._client
        self._users += 1
        try:
            yield client
        finally:
            self._users -= 1
            if not self._users:
                self._client = None
                await client.close()


def plugin_calls(
    profiles: Mapping[str, Profile], make_client: Callable[[], ApiClient]
) -> dict[tuple[str, str, str], PluginCall]:
    """The calls that the shell runs, by (profile, extension point, plugin); empty without user plugins."""
    shared = SharedClient(make_client)
    calls: dict[tuple[str, str, str], PluginCall] = {}
    for name, profile in profiles.items():
        for pre_bind in profile.pre_bind_plugins:
            if is_checked(pre_bind) and defines(type(pre_bind), PreBindPlugin, "pre_bind"):
                calls[name, "PreBind", pre_bind.name] = _call(pre_bind.pre_bind, pre_bind, shared, "PreBind")
        for bind in profile.bind_plugins:
            if is_checked(bind):
                calls[name, "Bind", bind.name] = _call(bind.bind, bind, shared, "Bind")
        for post_bind in profile.post_bind_plugins:
            if is_checked(post_bind):
                calls[name, "PostBind", post_bind.name] = _call(post_bind.post_bind, post_bind, shared, "PostBind")
    return calls


class Handle:
    """What one background part may ask and do (``PluginHandle``). Made on the event loop. Raises TypeError for what
    names no pod."""

    def __init__(self, plugin: str, client: ApiClient, inbox: PluginInbox) -> None:
        self._plugin = plugin
        self._client = client
        self._inbox = inbox
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    @property
    def client(self) -> ApiClient:
        return self._client

    def waiting_pods(self) -> Sequence[WaitingPod]:
        return self._inbox.waiting(self._plugin)

    def allow(self, uid: str) -> None:
        check_requests((AllowWaiting(uid),))
        self._feed(PermitDecided(uid, self._plugin, True))

    def reject(self, uid: str, message: str = "") -> None:
        check_requests((RejectWaiting(uid, message),))
        self._feed(PermitDecided(uid, self._plugin, False, message))

    def activate(self, *keys: str) -> None:
        check_requests((ActivatePods(keys),))
        self._feed(PodsActivated(keys))

    def _feed(self, decision: PermitDecided | PodsActivated) -> None:
        if threading.get_ident() == self._thread:
            self._inbox.feed(decision)
        else:
            # From asyncio.to_thread, say: a loop that sleeps would notice it at its next deadline only.
            self._loop.call_soon_threadsafe(self._inbox.feed, decision)


def background_calls(
    profiles: Mapping[str, Profile], make_client: Callable[[], ApiClient]
) -> dict[tuple[str, str], BackgroundCall]:
    """The background parts of user plugins, by profile and plugin."""
    shared = SharedClient(make_client)
    return {
        (name, plugin.name): _background(plugin, shared)
        for name, profile in profiles.items()
        for plugin in profile.plugins
        if isinstance(plugin, BackgroundPlugin) and is_checked(plugin)
    }


def _background(plugin: BackgroundPlugin, shared: SharedClient) -> BackgroundCall:
    async def call(inbox: PluginInbox) -> None:
        async with shared.borrowed() as client:
            await _contained(watched(plugin.run(Handle(plugin.name, client, inbox)), plugin.name, "Run", ""))

    return call


def _call(
    method: Callable[[BindContext], Coroutine[Any, Any, Any]],
    plugin: PreBindPlugin | BindPlugin | PostBindPlugin,
    shared: SharedClient,
    point: str,
) -> PluginCall:
    seconds = plugin.time_limit_seconds

    async def call(pod: PodInfo, node: str) -> Answer:
        async with shared.borrowed() as client:
            running = watched(method(BindContext(pod, node, client)), plugin.name, point, pod.key)
            answer: Answer = await _within(seconds, _contained(running))
        check_call(answer, may_skip=point == "Bind")
        return answer

    return call


async def _within(seconds: float, call: Coroutine[Any, Any, Any]) -> Any:
    """The call's answer. Raises TimeoutError after ``seconds``, even if the call suppresses its cancellation."""
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait((task,), timeout=seconds)
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(_forget)
    if not task.done():
        raise TimeoutError(f"no answer within {seconds:g}s")
    if task.cancelled():
        raise RuntimeError("it cancelled itself")
    return task.result()


def _forget(task: asyncio.Future[Any]) -> None:
    """Retrieves and discards the outcome of a timed-out call, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()


async def _contained(call: Coroutine[Any, Any, Any]) -> Any:
    """Awaits the call. Raises RuntimeError for what is no Exception, and for a CancelledError that is not the task's
    own but of something that the plugin awaits: it would end a background part without a word."""
    try:
        return await call
    except (Exception, KeyboardInterrupt):
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RuntimeError("it cancelled itself") from error
    except BaseException as error:
        raise RuntimeError(type_and_message(error)) from error
