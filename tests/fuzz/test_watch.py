"""The doors of the watches: lists and lines through the product's own decoders and reflector."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

from scheduler.controller.watch.backoff import Backoff
from scheduler.controller.watch.reflector import Reflector, WatchPlaceLost
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import CredentialSource
from scheduler.errors import ApiError, InvalidObject
from scheduler.messages.stimuli import ObjectDeleted, ObjectObserved, Stimulus
from scheduler.objects.kinds import Kind
from scheduler.objects.wire import decode_list, decode_watch_line
from scheduler.simulate.apiserver.kinds import PODS
from scheduler.simulate.cluster import EmbeddedCluster
from tests.controller.conftest import until
from tests.fuzz.documents import mutated, with_field
from tests.fuzz.frame import fuzz

POD: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {"app": "web"},
        "annotations": {"x": "[[{{\\\""}, "ownerReferences": [{"kind": "ReplicaSet", "name": "r", "uid": "o"}],
        "creationTimestamp": "2026-01-01T00:00:00Z",
    },
    "spec": {
        "nodeName": "n1", "priority": 5, "schedulerName": "tandem-scheduler", "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}]}},
        "containers": [{"name": "c", "image": "i", "ports": [{"hostPort": 80}],
                        "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    },
    "status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}]},
}  # fmt: skip
LINE: Final = json.dumps({"type": "MODIFIED", "object": POD}).encode()
OTHER: Final = json.dumps({**POD, "metadata": {**POD["metadata"], "name": "b", "uid": "v"}}).encode()
LIST: Final = b'{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[%b]}' % OTHER
KINDS_READ: Final = st.sampled_from(Kind)
TYPES: Final = st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "", "added", "\x00"])


def line_of(type_: str, document: bytes) -> bytes:
    return b'{"type":%b,"object":%b}' % (json.dumps(type_).encode(), document)


@fuzz(kind=KINDS_READ, type_=TYPES, document=with_field(POD))
def test_any_object_in_a_line_is_read_or_is_its_own_fault(kind: Kind, type_: str, document: bytes) -> None:
    for with_document in (False, True):
        event = decode_watch_line(kind, line_of(type_, document), with_document=with_document)
        assert (event.object is not None) + (event.fault is not None) + (event.error is not None) <= 1
        assert event.object is not None or event.fault or event.error or type_ == "BOOKMARK"
        assert event.object is None or event.object.metadata.name


@fuzz(kind=KINDS_READ, line=mutated(LINE))
def test_any_damaged_line_is_read_or_named(kind: Kind, line: bytes) -> None:
    try:
        decode_watch_line(kind, line)
    except InvalidObject as error:
        str(error).encode()


@fuzz(kind=KINDS_READ, document=with_field(POD))
def test_any_object_in_a_list_leaves_its_neighbours_as_they_are(kind: Kind, document: bytes) -> None:
    page = b'{"metadata":{"resourceVersion":"9"},"items":[%b,%b,%b]}' % (OTHER, document, OTHER)
    neighbour = decode_list(kind, b'{"metadata":{"resourceVersion":"9"},"items":[%b]}' % OTHER)
    found = decode_list(kind, page)
    assert found.resource_version == "9"
    assert len(found.objects) + len(found.faults) == 3
    if neighbour.objects:
        assert [found.objects[0], found.objects[-1]] == [neighbour.objects[0]] * 2


@fuzz(kind=KINDS_READ, page=mutated(LIST))
def test_any_damaged_list_is_read_or_refused(kind: Kind, page: bytes) -> None:
    try:
        decode_list(kind, page)
    except InvalidObject as error:
        str(error).encode()


class Cache:
    """What follows from the stimuli: it must be what the reflector knows."""

    def __init__(self) -> None:
        self.uids: dict[str, str] = {}

    async def room(self) -> None:
        """There always is."""

    def put_all(self, stimuli: Any, /) -> None:
        for stimulus in stimuli:
            self.apply(stimulus)

    def apply(self, stimulus: Stimulus) -> None:
        if isinstance(stimulus, ObjectObserved):
            key = stimulus.object.key
            assert self.uids.get(key, stimulus.object.uid) == stimulus.object.uid
            self.uids[key] = stimulus.object.uid
        elif isinstance(stimulus, ObjectDeleted):
            assert self.uids.pop(stimulus.object.key) == stimulus.object.uid


LINES: Final = st.lists(
    st.one_of(
        st.builds(line_of, TYPES, st.sampled_from([OTHER, OTHER.replace(b'"v"', b'"w"')])),
        st.builds(line_of, TYPES, with_field(POD)),
        mutated(LINE),
    ),
    min_size=1, max_size=6,
)  # fmt: skip


@fuzz(lines=LINES)
def test_whatever_a_watch_says_the_cache_is_what_the_reflector_knows(lines: list[bytes]) -> None:
    reflector = Reflector(Kind.POD, ApiClient(CredentialSource(ConnectionSettings(), {})), cache := Cache())

    async def take() -> None:
        for line in lines:
            # A line that ends the watch: another one would begin.
            with contextlib.suppress(InvalidObject, ApiError, WatchPlaceLost):
                reflector.take(line)

    asyncio.run(take())
    assert cache.uids == {key: one.uid for key, one in reflector.known.items()}


@fuzz(lines=LINES, answer=mutated(LIST), examples=4)
def test_over_http_the_kind_goes_on_after_whatever_was_answered(lines: list[bytes], answer: bytes) -> None:
    async def story() -> None:
        async with EmbeddedCluster(kubelet=None, controllers=False) as cluster:
            with tempfile.TemporaryDirectory() as folder:
                path = str(cluster.kubeconfig(Path(folder, "kubeconfig")))
                client = ApiClient(CredentialSource(ConnectionSettings(kubeconfig=path), {}))
                await client.connect()
            reflector = Reflector(Kind.POD, client, cache := Cache(), backoff=Backoff(0.001, 0.002))
            cluster.faults.answer("GET", r"/api/v1/pods\?limit", answer)
            cluster.faults.answer("GET", "/api/v1/pods.*watch", b"\n".join(lines) + b"\n")
            # Whatever place it got from that, the server has forgotten it.
            cluster.faults.fail("GET", "/api/v1/pods.*watch", 410, reason="Expired")
            task = asyncio.create_task(reflector.run())
            await until(lambda: not cluster.faults.rules)
            cluster.store.put(PODS, "n", "last", {"metadata": {"name": "last", "namespace": "n", "uid": "l"}})
            await until(lambda: list(cache.uids) == ["n/last"])
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await client.close()

    asyncio.run(story())
