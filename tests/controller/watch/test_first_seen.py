"""What is loaded only where it is needed, off the event loop, and before pods are taken."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from scheduler.compose import build_engine
from scheduler.config.loading import load
from scheduler.controller.loop import read_clock
from scheduler.controller.parts import Parts
from scheduler.controller.run import Shell
from scheduler.controller.watch.first_seen import OnceSeen
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.messages.stimuli import ObjectObserved
from scheduler.objects.devices import DeviceClass
from scheduler.objects.kinds import Kind
from tests.controller.conftest import create, until
from tests.controller.running import CONFIGURATION, quiet_settings, running
from tests.device_documents import device_class, gpu, resource_slice

RESOURCES = "/apis/resource.k8s.io/v1"
SEEN = (ObjectObserved(Kind.DEVICE_CLASS, DeviceClass()),)


async def test_it_is_loaded_once_in_a_thread_of_its_own() -> None:
    threads: list[threading.Thread] = []
    once = OnceSeen(lambda: threads.append(threading.current_thread()))
    assert once.change(()) == ()
    await once.settled()
    assert not threads
    for _ in range(2):
        assert once.change(SEEN) is SEEN
    await once.settled()
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


async def test_what_can_not_be_loaded_is_logged_and_stops_nothing(log_lines: list[dict[str, Any]]) -> None:
    def fail() -> None:
        raise ImportError("no such library")

    once = OnceSeen(fail)
    once.change(SEEN)
    await once.settled()
    assert [line["event"] for line in log_lines] == ["Could not be loaded ahead of its first use"]


@pytest.mark.parametrize("kind", ["deviceclasses", "resourceslices", ""])
async def test_selectors_are_loaded_before_pods_are_taken_where_there_are_devices(
    connection: ConnectionSettings, client: ApiClient, kind: str
) -> None:
    documents = {"deviceclasses": device_class("gpus", "true"), "resourceslices": resource_slice("n1", gpu("gpu-0"))}
    if kind:
        await create(client, f"{RESOURCES}/{kind}", documents[kind])
    engine = build_engine(load(CONFIGURATION), started=read_clock(), seed=1)
    was_synced: list[bool] = []
    parts = Parts(engine, load_selectors=lambda: was_synced.append(engine.is_synced))
    async with running(Shell(quiet_settings(connection), parts, {})):
        await until(lambda: engine.is_synced)
        assert was_synced == ([False] if kind else [])


async def test_selectors_are_loaded_with_the_first_class_that_comes_later(
    connection: ConnectionSettings, client: ApiClient
) -> None:
    engine = build_engine(load(CONFIGURATION), started=read_clock(), seed=1)
    was_synced: list[bool] = []
    parts = Parts(engine, load_selectors=lambda: was_synced.append(engine.is_synced))
    async with running(Shell(quiet_settings(connection), parts, {})):
        await until(lambda: engine.is_synced)
        await create(client, f"{RESOURCES}/deviceclasses", device_class("gpus", "true"))
        await until(lambda: was_synced == [True])
