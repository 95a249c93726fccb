"""docs/groups.md: the pods that each manifest's controller makes start together, and the output is real.

What the controllers of the custom resources make of a pod template is written down here; they themselves are run by
e2e/groups/test_operators.py, which alone has the RayCluster: its PodGroup is made by its operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Any

import msgspec
import pytest
import yaml
from rich.console import Console

from scheduler.cli.helps import print_helps
from scheduler.cli.why import print_why
from scheduler.engine.explain_groups import group_page
from scheduler.engine.questions.what_helps import what_helps
from scheduler.messages.stimuli import ObjectObserved
from scheduler.objects.kinds import Kind, decode
from scheduler.simulate.apiserver import Registry, Store
from scheduler.simulate.apiserver import kinds as served
from tests.docs.pages import DOCS, blocks, section
from tests.engine.gangs import Gangs
from tests.engine.questions.asking import answered

PAGE = (DOCS / "groups.md").read_text()
TOGETHER = ("Job", "JobSet", "Kubeflow Trainer")
"""Sections whose pods exist without a gate from the beginning."""
ADMISSION = {"name": "kueue.x-k8s.io/admission"}
Document = dict[str, Any]


def manifests(title: str) -> list[Document]:
    (text,) = blocks(section(PAGE, title), "yaml")
    return list(yaml.safe_load_all(text))


def pods_of(documents: list[Document]) -> Iterator[Document]:
    """The templates of the pods that the controllers make, or the pods themselves."""
    by_kind = {one["kind"]: one for one in documents}
    for document in documents:
        spec = document.get("spec", {})
        match document["kind"]:
            case "Pod":
                # Kueue's webhook adds the gate.
                yield {**document, "spec": {**spec, "schedulingGates": [ADMISSION]}}
            case "Job":
                yield from [spec["template"]] * spec["parallelism"]
            case "JobSet":
                yield from _of_jobs(spec["replicatedJobs"])
            case "TrainJob":
                runtime = by_kind[spec["runtimeRef"]["kind"]]
                assert runtime["metadata"]["name"] == spec["runtimeRef"]["name"]
                (job,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
                yield from [job["template"]["spec"]["template"]] * spec["trainer"]["numNodes"]


def _of_jobs(jobs: list[Document]) -> Iterator[Document]:
    for job in jobs:
        spec = job["template"]["spec"]
        yield from [spec["template"]] * (job["replicas"] * spec["parallelism"])


class Applied(Gangs):
    """The page's manifests on nodes of four CPUs: the API server takes what the controllers make of them."""

    def __init__(self, title: str, nodes: int) -> None:
        super().__init__()
        self.nodes_like(nodes, cpu="4", memory="16Gi")
        self.registry = Registry(Store())
        documents = manifests(title)
        for document in documents:
            if document["kind"] == "PodGroup":
                self.apply(served.POD_GROUPS, Kind.POD_GROUP, document)
        self.names = [self.make(number, template) for number, template in enumerate(pods_of(documents))]

    def make(self, number: int, template: Document) -> str:
        name = template.get("metadata", {}).get("name") or f"train-{number}"
        metadata = {**template.get("metadata", {}), "name": name}
        self.apply(served.PODS, Kind.POD, {**template, "metadata": metadata})
        return str(name)

    def apply(self, kind: served.Kind, read: Kind, document: Document) -> None:
        made = self.registry.create(kind, "default", document).object
        self.shown(read, made)

    def shown(self, read: Kind, document: Document) -> None:
        self.feed(ObjectObserved(read, decode(read, msgspec.json.encode(document))))

    def open_gates(self, name: str) -> None:
        edited = self.registry.change(
            served.PODS, "default", name, lambda old: {**old, "spec": {**old["spec"], "schedulingGates": []}}
        )
        assert edited is not None
        self.shown(Kind.POD, edited.object)


@pytest.mark.parametrize("title", TOGETHER)
def test_the_pods_of_a_manifest_start_together_or_not_at_all(title: str) -> None:
    cluster = Applied(title, nodes=3)
    cluster.schedule_all()
    assert len(cluster.names) == 4
    if title != "JobSet":  # Its driver fits beside a worker: three nodes are enough for it.
        assert cluster.bound() == {}
        cluster.node("fourth", cpu="4", memory="16Gi")
        cluster.schedule_all()
    assert sorted(cluster.bound()) == sorted(cluster.names)


def test_the_jobset_does_not_start_with_too_few_nodes_either() -> None:
    cluster = Applied("JobSet", nodes=2)
    cluster.schedule_all()
    assert cluster.bound() == {}


def test_pods_that_kueue_holds_start_when_the_last_of_them_is_admitted() -> None:
    cluster = Applied("Kueue in front", nodes=2)
    cluster.schedule_all()
    cluster.open_gates("train-0")
    cluster.schedule_all()
    assert cluster.bound() == {}
    cluster.open_gates("train-1")
    cluster.advance(30)
    cluster.schedule_all()
    assert sorted(cluster.bound()) == ["train-0", "train-1"]


def test_the_output_on_the_page_is_that_of_the_command() -> None:
    cluster = Applied("Job", nodes=3)
    cluster.schedule_all()
    page = group_page(cluster.engine, "default/train")
    assert page is not None
    written = StringIO()
    print_why(page, Console(width=110, file=written))
    shown, _ = blocks(section(PAGE, "Why a gang waits"), "text")
    lines = [line.rstrip() for line in written.getvalue().rstrip().splitlines()]
    assert shown.splitlines() == ["$ tandem why train", *lines]


def test_what_would_help_on_the_page_is_what_the_command_says() -> None:
    cluster = Applied("Job", nodes=3)
    cluster.schedule_all()
    answer = answered(cluster, what_helps(cluster.engine, "default/train", cluster.now))
    written = StringIO()
    print_helps(msgspec.json.decode(msgspec.json.encode(answer)), Console(width=110, file=written))
    _, shown = blocks(section(PAGE, "Why a gang waits"), "text")
    lines = [line.rstrip() for line in written.getvalue().rstrip().splitlines()]
    assert shown.splitlines() == ["$ tandem why train --what-helps", *lines]


def test_every_framework_of_the_page_is_tried() -> None:
    with_manifests = [
        line.removeprefix("## ")
        for line in PAGE.splitlines()
        if line.startswith("## ") and blocks(section(PAGE, line.removeprefix("## ")), "yaml")
    ]
    assert set(with_manifests) == {*TOGETHER, "KubeRay", "Kueue in front"}
