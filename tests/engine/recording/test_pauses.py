"""Recordings of attempts that pause: where they do goes by what is cached, which a checkpoint leaves out."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.cli.recorded import stated_of
from scheduler.config.loading import load
from scheduler.engine.recording.door import History, NextPod, RecordedEngine
from scheduler.engine.recording.outcome import encode_outcome, pod_in
from scheduler.engine.recording.replay import RecordedInput
from scheduler.messages.commands import BindPod
from scheduler.messages.stimuli import Tick, WakingContinued
from scheduler.objects.kinds import Kind
from scheduler.simulate.world import World
from scheduler.testing.documents import node_json, pod_json
from scheduler.testing.fragments import affinity_json, pod_term
from tests.engine.driver import Cluster
from tests.engine.recording.tapes import MemoryTape, Tapes
from tests.engine.test_long_searches import with_terms

HOST = "kubernetes.io/hostname"


def recorded(made: Cluster) -> tuple[RecordedEngine, MemoryTape]:
    tape = MemoryTape()
    return RecordedEngine(made.engine, History(made.engine, stated_of(load())), tape), tape


def bound(made: Cluster, entry: RecordedInput) -> bool:
    (pod,) = [pod for pod in made.pods if pod != "default/near"]
    return isinstance(entry.input, NextPod) and pod_in(entry.outcome) == pod


def test_an_attempt_that_pauses_is_recorded_once_it_is_done_with_all_that_it_led_to() -> None:
    made = with_terms(20_000)
    door, tape = recorded(made)
    door.schedule_one(made.now)
    pauses = 0
    while door.is_waking:
        assert tape.inputs() == []
        pauses += 1
        door.handle(WakingContinued(), made.now)
    assert pauses > 10
    (entry,) = tape.inputs()
    assert bound(made, entry)


def test_an_input_that_comes_in_a_pause_is_recorded_after_the_attempt_that_paused() -> None:
    made = with_terms(20_000)
    door, tape = recorded(made)
    door.schedule_one(made.now)
    commands = door.handle(Tick(), made.now)
    assert any(isinstance(command, BindPod) for command in commands)
    first, second = tape.inputs()
    assert bound(made, first)
    assert isinstance(second.input, Tick)
    assert second.outcome == encode_outcome([])


def room_one_after_the_other(made: World, *documents: tuple[Kind, dict[str, Any]]) -> None:
    """The last of the documents is a pod that needs the whole node; seven of eight others leave it one by one."""
    made.create(Kind.NODE, node_json("n0", cpu="8"))
    for place in range(8):
        made.create(Kind.POD, pod_json(f"there-{place}", cpu="1", node="n0", priority=10))
    for kind, document in documents:
        made.run_for(1)
        made.create(kind, document)
    for place in range(7):
        made.run_for(12)
        made.delete(Kind.POD, f"default/there-{place}")
    made.run_for(12)


def large(spec: dict[str, Any]) -> tuple[Kind, dict[str, Any]]:
    return Kind.POD, pod_json("large", cpu="8", spec=spec)


def terms_of_hosts(count: int) -> list[dict[str, Any]]:
    parts = [{"key": HOST, "operator": "In", "values": [f"n{number}"]} for number in range(count)]
    return [{"matchExpressions": [part]} for part in parts]


REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms_of_hosts(8_000)}}
CLAIM = {
    "metadata": {"name": "data", "namespace": "default", "uid": "claim"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "static",
        "selector": {"matchLabels": {f"key-{number}": "v" for number in range(12_000)}},
    },
}
CLASS = {
    "metadata": {"name": "static"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}
CASES = {
    "anti-affinity": [
        large({"affinity": affinity_json(anti_required=[pod_term({"app": f"app-{n}"}) for n in range(8_000)])})
    ],
    "node affinity": [large({"affinity": {"nodeAffinity": REQUIRED}})],
    "claim's selector": [
        (Kind.STORAGE_CLASS, CLASS),
        (Kind.PERSISTENT_VOLUME_CLAIM, CLAIM),
        large({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}),
    ],
}


@pytest.mark.parametrize("documents", CASES.values(), ids=CASES.keys())
def test_a_large_pod_is_decided_alike_from_a_checkpoint_at_which_its_terms_had_been_parsed(
    documents: list[tuple[Kind, dict[str, Any]]],
) -> None:
    tapes = Tapes(entries_a_part=7)
    room_one_after_the_other(tapes.world(1), *documents)
    (life,) = tapes.lives
    assert not any(isinstance(each.input, WakingContinued) for each in life.inputs())
    assert tapes.check_parts() > 8


def test_so_are_preemptors_though_it_leaves_out_what_the_search_for_victims_keeps() -> None:
    tapes = Tapes(entries_a_part=100)
    made = tapes.world(1)
    for number in range(120):
        made.create(Kind.NODE, node_json(f"n{number}", cpu="1"))
        for place in range(10):
            made.create(Kind.POD, pod_json(f"low{number}-{place}", cpu="100m", node=f"n{number}", priority=1))
    made.run_for(1)
    for number in range(12):
        made.create(Kind.POD, pod_json(f"high{number}", cpu="300m", priority=10))
        made.run_for(1)
    assert tapes.check_parts() > 12
