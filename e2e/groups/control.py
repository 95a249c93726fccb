"""Control planes that serve groups of pods, and schedulers with the gates for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.builders import SCHEDULER
from e2e.client import Client
from e2e.conftest import SUBJECT
from e2e.controlplane import build
from e2e.controlplane.cluster import CONTROLLERS, ControlPlane
from e2e.identities import REFERENCE_RULES, Identities, shipped_rules
from e2e.peer import KubeScheduler
from e2e.subject import Scheduler
from e2e.tandem import Tandem, profile

API = "scheduling.k8s.io/v1alpha2"
SERVED_GATES = (
    "GenericWorkload",
    "GangScheduling",
    "TopologyAwareWorkloadScheduling",
    "WorkloadAwarePreemption",
    "DRAWorkloadResourceClaims",
)
_GROUP_RULES = (
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["podgroups"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["podgroups/status"], "verbs": ["patch", "update"]},
)


@contextmanager
def serving_groups(gates: Sequence[str] = SERVED_GATES) -> Iterator[ControlPlane]:
    """A control plane with these feature gates that serves the API of groups; skips the test without programs."""
    try:
        with ControlPlane(
            features=gates, apis=[API], controllers=(*CONTROLLERS, "podgroup-protection-controller")
        ) as made:
            yield made
    except build.BuildError as missing:
        pytest.skip(f"no control plane: {missing}")


@contextmanager
def subject_with(
    gates: Sequence[str],
    controlplane: ControlPlane,
    client: Client,
    folder: Path,
    kind: str = SUBJECT,
    **fields: Any,
) -> Iterator[Scheduler]:
    """A scheduler of this kind with these feature gates; killed at the end. ``fields``: of its configuration."""
    option = f"--feature-gates={','.join(f'{name}=true' for name in gates)}"
    identities = Identities(client, controlplane.kubeconfig(), folder)
    subject: Scheduler
    if kind == "kube-scheduler":
        kubeconfig = identities.kubeconfig("peer", (*REFERENCE_RULES, *_GROUP_RULES))
        subject = KubeScheduler(
            kubeconfig, folder, SCHEDULER, programs=controlplane.programs, options=[option], **fields
        )
    else:
        config = {**profile(SCHEDULER), **fields} if fields else None
        subject = Tandem(identities.kubeconfig("tandem", shipped_rules()), folder, config=config, options=[option])
    with subject:
        yield subject
    subject.kill()
