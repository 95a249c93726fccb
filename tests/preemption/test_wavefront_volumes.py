"""The waves against the plain dry run, where volumes, host ports and nominated pods have a say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.preemption_policy import UPSTREAM_POLICY
from scheduler.objects.meta import ApiObject
from scheduler.objects.pod import Pod
from scheduler.objects.storage import MIGRATED_PLUGINS_ANNOTATION
from scheduler.preemption.candidates import potential_rows
from scheduler.preemption.dry_run import Candidate, dry_run_node, trial_of
from scheduler.preemption.pod_columns import PodColumns
from scheduler.preemption.wave_answers import wave_answers
from scheduler.preemption.wave_filters import wave_filters
from scheduler.testing.fragments import affinity_json, node_term, pod_term, spread_json
from scheduler.testing.objects import node, pod
from tests import builders
from tests.preemption.situations import Situation

CLAIMS = tuple("abcdefg")
EBS = "ebs.csi.aws.com"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
DISKS: tuple[dict[str, Any], ...] = (
    {"name": "ebs", "awsElasticBlockStore": {"volumeID": "vol-a"}},
    {"name": "gce", "gcePersistentDisk": {"pdName": "disk"}},
    {"name": "gce-read", "gcePersistentDisk": {"pdName": "disk", "readOnly": True}},
    {"name": "rbd", "rbd": {"monitors": ["x", "y"], "pool": "p", "image": "i"}},
    {"name": "rbd-other", "rbd": {"monitors": ["z"], "pool": "p", "image": "i"}},
)
PORTS: tuple[list[Any], ...] = (
    [],
    [],
    [80],
    [{"hostPort": 80, "hostIP": "10.0.0.1", "containerPort": 80}],
    [{"hostPort": 80, "hostIP": "10.0.0.2", "containerPort": 80}, 81],
)


@st.composite
def storage(draw: Any, nodes: list[str]) -> list[ApiObject]:
    """Seven claims: CSI, in-tree, two of one volume, exclusive, delayed, of another driver, without a volume."""
    objects: list[ApiObject] = [
        builders.storage_class("later", "csi.test"),
        builders.claim("a", volume="pv-a"),
        builders.volume("pv-a", csi=("csi.test", draw(st.sampled_from(("h-a", "h-c"))))),
        builders.claim("b", volume="pv-b", modes=("ReadWriteOncePod",)),
        builders.volume("pv-b", csi=("csi.test", "h-b")),
        builders.claim("c", volume="pv-c"),
        builders.volume("pv-c", csi=("csi.test", "h-c"), labels=draw(st.sampled_from(({}, {ZONE: "z0"})))),
        builders.claim("d", storage_class="later"),
        builders.claim("e", volume="pv-e"),
        builders.volume("pv-e", spec={"awsElasticBlockStore": {"volumeID": "vol-a"}}),
        builders.claim("f", volume="pv-f", modes=("ReadWriteOncePod",)),
        builders.volume(
            "pv-f", csi=("other.test", "h-f"), node_affinity=draw(st.sampled_from((None, [node_term(f"{ZONE} In z1")])))
        ),
        builders.claim("g", volume="pv-none"),
    ]
    for name in nodes:
        limits = {driver: draw(st.integers(0, 3)) for driver in ("csi.test", "other.test", EBS) if draw(st.booleans())}
        if draw(st.booleans()):
            annotations = {MIGRATED_PLUGINS_ANNOTATION: "kubernetes.io/aws-ebs"} if draw(st.booleans()) else {}
            objects.append(builders.csi_node(name, limits, annotations=annotations))
        for volume in ("pv-a", "pv-c"):
            if draw(st.integers(0, 3)) == 0:
                objects.append(builders.attachment(f"{name}-{volume}", name, volume))
    return objects


@st.composite
def a_pod(draw: st.DrawFn, /, name: str, *, is_preemptor: bool = False, **fields: Any) -> Pod:
    claims = draw(st.lists(st.sampled_from(CLAIMS[:6]), max_size=2, unique=True))
    disks = draw(st.lists(st.sampled_from(DISKS), max_size=1 + is_preemptor, unique_by=lambda disk: disk["name"]))
    kind = draw(st.sampled_from((None, None, None, "anti_required")))
    terms: dict[str, Any] = {} if kind is None else {kind: [pod_term({"app": "web"}, HOST)]}
    affinity = affinity_json(**terms) if terms else None
    return pod(
        name,
        cpu=f"{draw(st.integers(0, 4))}",
        labels=draw(st.sampled_from(({}, {"app": "web"}))),
        claims=claims,
        volumes=disks,
        ports=draw(st.sampled_from(PORTS)),
        affinity=affinity,
        started=draw(st.sampled_from((None, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"))),
        **fields,
    )


@st.composite
def situations(draw: Any) -> tuple[Situation, Pod]:
    names = [f"n{place}" for place in range(draw(st.integers(1, 3)))]
    nodes = [node(name, cpu="8", pods=6, zone=f"z{place % 2}") for place, name in enumerate(names)]
    pods = [
        draw(a_pod(f"p{index}", node=draw(st.sampled_from(names)), priority=draw(st.integers(-2, 3))))
        for index in range(draw(st.integers(1, 12)))
    ]
    pods += [
        draw(a_pod(f"w{index}", nominated=draw(st.sampled_from(names)), priority=draw(st.integers(1, 4))))
        for index in range(draw(st.integers(0, 3)))
    ]
    budgets = [builders.budget("b", {"app": "web"}, allowed=draw(st.integers(0, 1)))] if draw(st.booleans()) else []
    spread = draw(st.sampled_from(([], [], [], [spread_json(ZONE, {"app": "web"})])))
    preemptor = draw(a_pod("preemptor", is_preemptor=True, priority=draw(st.integers(1, 3)), spread=spread))
    return Situation(nodes, pods, [*draw(storage(names)), *budgets]), preemptor


def judge(situation: Situation, preemptor: Pod, columns: PodColumns) -> None:
    """Every row is answered by the wave, as the plain dry run answers it."""
    statuses = dict.fromkeys(situation.cache.table.names, situation.refusal)
    trial = trial_of(situation.attempt(preemptor, statuses=statuses), UPSTREAM_POLICY)
    filters = wave_filters(trial)
    assert filters is not None
    rows = potential_rows(trial.context)
    answers = wave_answers(trial, rows, columns, filters)
    assert answers == {row: dry_run_node(trial, row) for row in rows.tolist()}


@settings(max_examples=150)
@given(situations())
def test_waves_answer_every_node_as_the_plain_dry_run_does(given_situation: tuple[Situation, Pod]) -> None:
    situation, preemptor = given_situation
    judge(situation, preemptor, PodColumns())
    situation.cache.check()


@settings(max_examples=60)
@given(situations(), st.data())
def test_what_is_kept_of_volumes_follows_pods_and_objects(
    given_situation: tuple[Situation, Pod], data: st.DataObject
) -> None:
    situation, preemptor = given_situation
    columns = PodColumns()
    names = [name for name in situation.cache.table.names if name]
    for step in range(3):
        judge(situation, preemptor, columns)
        placed = sorted(situation.cache.pods)
        leaves: bool = data.draw(st.booleans())
        if placed and leaves:
            situation.cache.remove_pod(data.draw(st.sampled_from(placed)))
        if data.draw(st.booleans()):
            added = data.draw(a_pod(f"new-{step}", node=data.draw(st.sampled_from(names)), priority=0))
            situation.cache.observe_pod(PodInfo(added))
        for changed in data.draw(storage(names)):
            if data.draw(st.integers(0, 3)) == 0:
                situation.observe(changed)


def test_a_claim_that_two_victims_share_goes_with_the_second_of_them() -> None:
    objects = [
        builders.csi_node("n1", {"csi.test": 1}),
        *[builders.claim(name, volume=f"pv-{name}", modes=("ReadWriteMany",)) for name in "ab"],
        *[builders.volume(f"pv-{name}", csi=("csi.test", name), modes=("ReadWriteMany",)) for name in "ab"],
    ]
    pods = [pod(f"p{index}", node="n1", priority=index, claims=["a"]) for index in range(3)]
    situation = Situation([node("n1")], pods, objects)
    trial = trial_of(situation.attempt(pod("preemptor", priority=9, claims=["b"])), UPSTREAM_POLICY)
    filters = wave_filters(trial)
    assert filters is not None
    (answer,) = wave_answers(trial, trial.view.ordered_rows, PodColumns(), filters).values()
    assert isinstance(answer, Candidate)
    assert [info.name for info in answer.victims] == ["p2", "p1", "p0"]


@pytest.mark.parametrize("nominated", [0, 1])
def test_a_nominated_pods_volume_needs_room_as_well(nominated: int) -> None:
    objects = [
        builders.csi_node("n1", {"csi.test": 2}),
        *[builders.claim(name, volume=f"pv-{name}") for name in "abc"],
        *[builders.volume(f"pv-{name}", csi=("csi.test", name)) for name in "abc"],
    ]
    pods = [pod(f"p{name}", node="n1", priority=0, claims=[name]) for name in "a"]
    waiting = [pod("w", nominated="n1", priority=5, claims=["b"])][:nominated]
    situation = Situation([node("n1")], [*pods, *waiting], objects)
    preemptor = pod("preemptor", priority=5, claims=["c"])
    trial = trial_of(situation.attempt(preemptor, statuses={"n1": situation.refusal}), UPSTREAM_POLICY)
    filters = wave_filters(trial)
    assert filters is not None
    (answer,) = wave_answers(trial, trial.view.ordered_rows, PodColumns(), filters).values()
    victims = answer.victims if isinstance(answer, Candidate) else ()
    assert [info.name for info in victims] == ["pa"][:nominated]


def test_a_port_that_two_pods_shared_is_free_once_one_of_them_has_left() -> None:
    pods = [pod(f"p{index}", node="n1", cpu="4", priority=index, ports=[80]) for index in range(2)]
    situation = Situation([node("n1", cpu="8")], pods)
    situation.cache.remove_pod("pod-p0")
    judge(situation, pod("preemptor", cpu="8", priority=9, ports=[80]), PodColumns())
    judge(situation, pod("preemptor", priority=9, ports=[80]), PodColumns())
