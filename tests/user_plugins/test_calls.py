"""PreBind, Bind and PostBind of user plugins in the shell: answers, nonsense, and calls that never end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from scheduler.cluster.pod_info import PodInfo
from scheduler.compose import all_plugins, build_profiles
from scheduler.config.loading import load
from scheduler.controller.calls.background import PluginInbox
from scheduler.controller.calls.plugin_calls import PluginCalls
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.leadership import AlwaysHeld
from scheduler.messages.commands import RunPlugin
from scheduler.messages.status import Code
from scheduler.messages.stimuli import PermitDecided, PluginFinished, PodsActivated
from scheduler.testing.objects import pod
from scheduler.user_plugins.calls import Handle, SharedClient, background_calls, plugin_calls
from tests.controller.conftest import until
from tests.user_plugins.test_loading import SAMPLES, configuration, profiles_of, sample_classes


class Client(ApiClient):
    """Counts how often it is made and closed."""

    made = 0
    closed = 0

    def __init__(self) -> None:
        type(self).made += 1

    async def close(self) -> None:
        type(self).closed += 1


def calls() -> dict[tuple[str, str, str], Any]:
    text = configuration(f'[{{name: Mine, path: "{SAMPLES}:Tickets"}}]', "[{name: Mine}]")
    loaded = load(text)
    return plugin_calls(build_profiles(loaded, all_plugins(loaded, sample_classes())), Client)


async def outcome(point: str, does: str) -> PluginFinished:
    finished: list[PluginFinished] = []
    running = PluginCalls(finished.append, AlwaysHeld(), calls())
    info = PodInfo(pod("p", labels={"does": does}))
    running.submit(RunPlugin(7, point, "tandem-scheduler", "Mine", info, "a"))
    await until(lambda: bool(finished))
    await running.close()
    return finished[0]


def test_only_plugins_from_outside_are_run_and_the_default_binder_is_not() -> None:
    assert sorted(calls()) == [("tandem-scheduler", point, "Mine") for point in ("Bind", "PostBind", "PreBind")]


async def test_a_plugin_says_yes_or_no_or_leaves_the_binding_to_the_next() -> None:
    assert await outcome("PreBind", "nothing") == PluginFinished(7, None)
    refusal = (await outcome("PreBind", "refuse")).refusal
    assert refusal is not None and (refusal.reasons, refusal.plugin) == (("not on a",), "Mine")
    assert await outcome("Bind", "skip") == PluginFinished(7, None, is_skip=True)


@pytest.mark.parametrize("does", ["hang", "cling"])
async def test_a_call_that_does_not_end_is_cut_off_after_its_limit_even_if_it_clings(does: str) -> None:
    refusal = (await outcome("PreBind", does)).refusal
    assert refusal is not None
    assert (refusal.code, refusal.message) == (Code.ERROR, "TimeoutError: no answer within 0.05s")


@pytest.mark.parametrize(
    ("point", "does", "text"),
    [
        ("PreBind", "nonsense", "TypeError: answered True; None or a Refusal is wanted"),
        ("PreBind", "skip", "TypeError: answered SKIP; None or a Refusal is wanted"),
        ("Bind", "nonsense", "TypeError: answered True; None, SKIP or a Refusal is wanted"),
        ("PreBind", "exit", "RuntimeError: SystemExit: 3"),
        ("PreBind", "cancel", "RuntimeError: it cancelled itself"),
        ("PreBind", "panic", "RuntimeError: Panic: index out of bounds"),
    ],
)
async def test_nonsense_and_attempts_to_leave_are_failures_of_the_call_only(point: str, does: str, text: str) -> None:
    refusal = (await outcome(point, does)).refusal
    assert refusal is not None and refusal.code is Code.ERROR
    assert refusal.message == text


async def test_a_background_part_whose_task_was_cancelled_has_failed_and_is_not_over() -> None:
    """It is started again for an error; a cancellation would end it for good."""
    text = configuration(f'[{{name: Quitter, path: "{SAMPLES}:Quitter"}}]', "[{name: Quitter}]")
    (run,) = background_calls(profiles_of(text), Client).values()
    with pytest.raises(RuntimeError, match="it cancelled itself"):
        await run(PluginInbox(lambda _: (), lambda _: None))


@pytest.mark.parametrize(
    "ask",
    [
        lambda handle: handle.allow(["a list"]),
        lambda handle: handle.reject("u", "half a pair: \ud800"),
        lambda handle: handle.reject("u", None),
        lambda handle: handle.activate(["default/a"]),
    ],
)
async def test_what_a_background_part_asks_of_no_pod_or_with_no_text_is_its_own_error(
    ask: Callable[[Handle], None],
) -> None:
    fed: list[Any] = []
    with pytest.raises(TypeError, match="answered"):
        ask(Handle("Mine", Client(), PluginInbox(lambda _: (), fed.append)))
    assert fed == []


async def test_what_a_thread_of_a_background_part_asks_is_put_on_the_event_loop() -> None:
    fed: list[tuple[Any, int]] = []
    inbox = PluginInbox(lambda _: (), lambda decision: fed.append((decision, threading.get_ident())))
    handle = Handle("Mine", Client(), inbox)

    def decide() -> None:
        handle.allow("u")
        handle.reject("v", "no")
        handle.activate("default/a")

    await asyncio.to_thread(decide)
    await until(lambda: len(fed) == 3)
    decisions = [
        PermitDecided("u", "Mine", True),
        PermitDecided("v", "Mine", False, "no"),
        PodsActivated(("default/a",)),
    ]
    assert fed == [(decision, threading.get_ident()) for decision in decisions]


async def test_calls_at_one_time_share_a_client_that_is_closed_after_the_last() -> None:
    Client.made = Client.closed = 0
    shared = SharedClient(Client)
    async with shared.borrowed() as one:
        async with shared.borrowed() as other:
            assert one is other
        assert (Client.made, Client.closed) == (1, 0)
    assert (Client.made, Client.closed) == (1, 1)
    async with shared.borrowed():
        assert Client.made == 2
