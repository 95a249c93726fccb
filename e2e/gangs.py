"""Gangs on a real control plane: servers and subjects with the alpha gates on, and the objects that tests create."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e import builders
from e2e.builders import SCHEDULER, Object
from e2e.client import Client
from e2e.conftest import SUBJECT
from e2e.controlplane import build
from e2e.controlplane.cluster import CONTROLLERS, ControlPlane
from e2e.identities import REFERENCE_RULES, Identities, shipped_rules
from e2e.peer import KubeScheduler
from e2e.room import Room
from e2e.subject import Scheduler
from e2e.tandem import Tandem

API = "scheduling.k8s.io/v1alpha2"
_GROUP_RULES = (
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["podgroups"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["podgroups/status"], "verbs": ["patch", "update"]},
)


@contextmanager
def serving_groups(gates: Sequence[str]) -> Iterator[ControlPlane]:
    """A control plane with these feature gates that serves the API of groups; skips the test without programs."""
    try:
        with ControlPlane(
            features=gates, apis=[API], controllers=(*CONTROLLERS, "podgroup-protection-controller")
        ) as made:
            yield made
    except build.BuildError as missing:
        pytest.skip(f"no control plane: {missing}")


@contextmanager
def subject_with(gates: Sequence[str], controlplane: ControlPlane, client: Client, folder: Path) -> Iterator[Scheduler]:
    """The scheduler under test with these feature gates; killed at the end."""
    option = f"--feature-gates={','.join(f'{name}=true' for name in gates)}"
    identities = Identities(client, controlplane.kubeconfig(), folder)
    subject: Scheduler
    if SUBJECT == "kube-scheduler":
        kubeconfig = identities.kubeconfig("peer", (*REFERENCE_RULES, *_GROUP_RULES))
        subject = KubeScheduler(kubeconfig, folder, SCHEDULER, programs=controlplane.programs, options=[option])
    else:
        subject = Tandem(identities.kubeconfig("tandem", shipped_rules()), folder, options=[option])
    with subject:
        yield subject
    subject.kill()


def group(room: Room, name: str, min_count: int, **spec: Any) -> Object:
    return {
        "kind": "PodGroup",
        "apiVersion": API,
        "metadata": {"name": name, "namespace": room.name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}, **spec},
    }


def member(room: Room, name: str, of: str, cpu: str = "1", **spec: Any) -> Object:
    return builders.pod(name, room.name, cpu=cpu, schedulingGroup={"podGroupName": of}, **spec)


def wait_condition(room: Room, status: str, reason: str, message: str = "", seconds: float = 20.0) -> None:
    """Until the one group of the room says this of itself."""

    def is_said(state: dict[str, Object]) -> bool:
        conditions = [one for thing in state.values() for one in thing.get("status", {}).get("conditions", ())]
        said = [(one["status"], one["reason"], one.get("message", "")) for one in conditions]
        return said == [(status, reason, message)]

    with room.client.watch("PodGroup", room.name) as watch:
        watch.wait_until(is_said, seconds, f"PodGroupScheduled={status} {reason} {message!r}")
