"""Compares the caches with the API server's lists every few minutes, so that a missed event has no lasting effect.

Two steps. First each reflector is compared with a list: an object that is listed but unknown or in another version, or
known but no longer listed, although the watch is past the list's version, has been missed. Then the engine is compared
with the reflectors, in parts. Each repair is logged and counted: there should be none, unless etcd was restored to an
earlier state.

A restore may also lose a binding that was answered, but that no watch has shown. Such a pod is read from the API
server, since neither lists nor watches distinguish it from a pod whose binding they do not show yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat
from typing import Final

import structlog
from msgspec import Struct

from scheduler.controller.inbox import Inbox
from scheduler.controller.report.instruments import Counter
from scheduler.controller.step_watch import Step, unwatched
from scheduler.controller.watch.health import Health
from scheduler.controller.watch.pages import Pages
from scheduler.controller.watch.reflector import Reflector
from scheduler.controller.watch.versions import version_of
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.requests import pod_path
from scheduler.errors import ApiError, InvalidObject
from scheduler.messages.commands import ReportKnownObjects, ReportRepairs
from scheduler.messages.references import PodReference
from scheduler.messages.stimuli import Reconciled, ReconciliationStarted
from scheduler.objects.kinds import Kind, decode_as
from scheduler.objects.meta import ApiObject, number_of_version
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.objects.wire import decode_list_in_parts

POLL_SECONDS: Final = 0.5
READ_SECONDS: Final = 10.0
PODS_READ: Final = 500
"""Pods that are read one by one in one round, at most."""
LINES_LOGGED: Final = 20
OBJECTS_A_PART: Final = 400
"""Objects compared in one step, which takes about 2 ms, a slice of the scheduling loop."""

log = structlog.get_logger()


class Patience(Struct, frozen=True):
    """Seconds that a watch has. ``to_catch_up``: to pass a list's version; bookmarks arrive every minute.
    ``to_confirm``: to show a binding that was answered; an extender may do it after its answer."""

    to_catch_up: float = 90.0
    to_confirm: float = 30.0


class Reconciler:
    """``run`` as a task, once everything is synced.

    ``node_for_engine`` returns a node as the engine is shown it. ``step`` watches how long each part takes.
    """

    def __init__(
        self,
        reflectors: Sequence[Reflector],
        client: ApiClient,
        inbox: Inbox,
        counter: Counter,
        *,
        patience: Patience = Patience(),  # noqa: B008 - frozen
        node_for_engine: Callable[[Node], Node] = lambda node: node,
        step: Step = unwatched,
    ) -> None:
        for reflector in reflectors:
            # On the page from the start: a series that begins with its first repair has no increase.
            counter.child(reflector.kind.value)
        self._reflectors = reflectors
        self._client = client
        self._inbox = inbox
        self._counter = counter
        self._patience = patience
        self._node_for_engine = node_for_engine
        self._step = step
        self._known_objects: ReportKnownObjects | None = None

    async def run(self, period: float) -> None:
        """Runs a round every ``period`` seconds, until cancelled."""
        while True:
            await asyncio.sleep(period)
            await self.round()

    async def round(self) -> None:
        """Compares all kinds once, one after the other."""
        for reflector in self._reflectors:
            try:
                await self._compare(reflector)
            except (ApiError, InvalidObject) as error:
                log.info("Cache could not be compared", kind=reflector.kind.value, error=str(error))
        await self._compare_engine()

    def take(self, answer: ReportKnownObjects | ReportRepairs) -> None:
        """Takes the engine's answers: its objects, or its repairs."""
        if isinstance(answer, ReportKnownObjects):
            self._known_objects = answer
            return
        for kind in {kind for kind, _ in answer.repairs}:
            self._tell(kind, [line for one, line in answer.repairs if one is kind])

    async def _compare(self, reflector: Reflector) -> None:
        """Compares a reflector with a list, if its watch runs: otherwise it is about to list by itself."""
        if reflector.health is not Health.WATCHING:
            return
        with reflector.mirror.noting_deletions() as deleted:
            relists, before = reflector.relists, reflector.resource_version
            version, suspects, listed = await self._list(reflector)
            if version < number_of_version(before):
                # The API server's state went back. A watch from a version that is still to come is silent, and soon
                # followed by a list.
                return
            mirror = reflector.mirror
            missing = [key for key in mirror.keys if key not in listed]
            if not (version and (suspects or missing)) or not await self._catches_up(reflector, version):
                return
            if reflector.relists != relists:
                return
            # No await from here on, so that all known objects are of one moment, which is later than the list's.
            missed = [
                (one, document)
                for key, (one, document) in suspects.items()
                if key not in deleted and _is_missed(one, mirror.latest(key), version)
            ]
            gone = [key for key in missing if version_of(mirror.latest(key)) in range(1, version + 1)]
            reflector.mend(missed, gone)
        lines = [f"{one.key} was missing or out of date" for one, _ in missed] + [
            f"{key} no longer exists" for key in gone
        ]
        if lines:
            self._tell(reflector.kind, lines)

    async def _list(self, reflector: Reflector) -> tuple[int, dict[str, tuple[ApiObject, bytes]], set[str]]:
        """The list's version (0: can't be compared), the objects that differ from the known ones, with their JSON if
        the reflector passes it on, and all keys."""
        suspects: dict[str, tuple[ApiObject, bytes]] = {}
        keys: set[str] = set()
        token, version = "", ""
        pages = Pages(self._client, reflector.path, reflector.selector, reflector.reading.page_size)
        while True:
            answer = await pages.request(token)
            parts = decode_list_in_parts(reflector.kind, answer.body, with_documents=reflector.reading.with_documents)
            while True:
                with self._step(f"reconciliation's list of {reflector.kind.value}"):
                    part = next(parts, None)
                    if part is None:
                        break
                    version, token = part.resource_version or version, part.continue_token
                    # Unreadable objects exist: their last readable version stays.
                    keys.update(fault.name for fault in part.faults)
                    for one, document in zip(part.objects, part.documents or repeat(b""), strict=False):
                        keys.add(one.key)
                        known = reflector.mirror.latest(one.key)
                        if known is None or known.metadata.resource_version != one.metadata.resource_version:
                            suspects[one.key] = one, document
                await asyncio.sleep(0)
            if not token:
                return number_of_version(version), suspects, keys

    async def _catches_up(self, reflector: Reflector, version: int) -> bool:
        """Waits until the watch is past the list's version; False on a time-out."""
        try:
            async with asyncio.timeout(self._patience.to_catch_up):
                while number_of_version(reflector.resource_version) < version:  # noqa: ASYNC110
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            return False
        return True

    async def _compare_engine(self) -> None:
        """Compares the engine part by part, each as of its moment; watches and decisions go on in between."""
        reported = await self._ask()
        if reported is None:
            return
        nodes = [one for one in self._reflectors if one.kind is Kind.NODE]
        pods = [one for one in self._reflectors if one.kind is Kind.POD]
        for part in _parts([key for one in nodes for key in one.known]):
            with self._step("reconciliation of nodes"):
                found = [node for key in part for one in nodes if isinstance(node := one.known.get(key), Node)]
                self._inbox.put(Reconciled({node.name: self._node_for_engine(node) for node in found}, {}))
            await self._inbox.emptied()
        seen: set[str] = set()
        for part in _parts([*chain.from_iterable([one.known for one in pods])]):
            with self._step("reconciliation of pods"):
                there = {
                    pod.uid: pod
                    for key in part
                    for one in pods
                    if isinstance(pod := one.known.get(key), Pod) and not pod.is_finished
                }
                seen.update(there)
                self._inbox.put(Reconciled({}, there))
            await self._inbox.emptied()
        lost_nodes = [name for name in reported.nodes if all(name not in one.known for one in nodes)]
        suspects: list[str] = []
        for part in _parts(reported.pods):
            with self._step("reconciliation of pods"):
                suspects += [uid for uid in part if uid not in seen]
            await asyncio.sleep(0)
        if suspects or lost_nodes:
            # A watch may have added some of them meanwhile: only what is still absent now is reported.
            absent = dict.fromkeys(suspects)
            for part in _parts([*chain.from_iterable([one.known for one in pods])]):
                with self._step("reconciliation of what is gone"):
                    for pod in [pod for key in part for one in pods if isinstance(pod := one.known.get(key), Pod)]:
                        if not pod.is_finished:
                            absent.pop(pod.uid, None)
                await asyncio.sleep(0)
            gone = [name for name in lost_nodes if all(name not in one.known for one in nodes)]
            self._inbox.put(Reconciled({}, {}, gone, [*absent]))
            await self._inbox.emptied()
        if lost := await self._lost_bindings(reported.unconfirmed, pods):
            self._inbox.put(Reconciled({}, {}, lost_bindings=lost))
            await self._inbox.emptied()

    async def _lost_bindings(
        self, unconfirmed: Sequence[tuple[PodReference, str]], reflectors: Sequence[Reflector]
    ) -> dict[str, str]:
        """UIDs of the pods that have no node although their bindings were answered, with the node that was meant.

        Each is read after its binding was answered, and a read, unlike what a watch shows, is never older than that.
        """
        unbound = [one for one in unconfirmed if _is_shown_unbound(one[0], reflectors)]
        if not unbound:
            return {}
        await asyncio.sleep(self._patience.to_confirm)
        lost: dict[str, str] = {}
        for pod, node in [one for one in unbound if _is_shown_unbound(one[0], reflectors)][:PODS_READ]:
            try:
                answer = await self._client.request("GET", pod_path(pod), timeout_seconds=READ_SECONDS)
                found = decode_as(Pod, answer.body)
            except (ApiError, InvalidObject) as error:
                log.info("Pod could not be compared", pod=pod.key, error=str(error))
                continue
            if found.uid == pod.uid and not found.node_name:
                lost[pod.uid] = node
        return lost

    async def _ask(self) -> ReportKnownObjects | None:
        """The engine's present objects; None without an answer."""
        self._inbox.put(ReconciliationStarted())
        await self._inbox.emptied()
        answer, self._known_objects = self._known_objects, None
        return answer

    def _tell(self, kind: Kind, lines: Sequence[str]) -> None:
        self._counter.child(kind.value).add(len(lines))
        log.error("Cache differed from the API server and was repaired", kind=kind.value, repairs=lines[:LINES_LOGGED])


def _parts(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    for begin in range(0, len(keys), OBJECTS_A_PART):
        yield keys[begin : begin + OBJECTS_A_PART]


def _is_missed(listed: ApiObject, known: ApiObject | None, version: int) -> bool:
    """Whether the watch, which is past the list's version, should have delivered what is listed: it has delivered no
    later change. The listed object may even be the older one, where the state went back and has passed that version
    again."""
    is_same = known is not None and known.metadata.resource_version == listed.metadata.resource_version
    return not is_same and version_of(known) <= version


def _is_shown_unbound(pod: PodReference, reflectors: Sequence[Reflector]) -> bool:
    found = (one.known.get(pod.key) for one in reflectors)
    return any(isinstance(one, Pod) and one.uid == pod.uid and not one.node_name for one in found)
