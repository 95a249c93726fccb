"""The table of feature gates against the kube-scheduler that is built from source."""

from __future__ import annotations

import re
import subprocess

import pytest

from e2e.controlplane.build import programs
from scheduler.config.feature_gates import parse_feature_gates
from scheduler.config.gate_table import GATES, Stage
from scheduler.errors import ConfigurationError

_LINE = re.compile(r"kube:(\w+)=true\|false \((\w+) - default=(\w+)\)")


def kube_scheduler(*arguments: str) -> str:
    """What it prints before it fails to reach a cluster."""
    command = [str(programs() / "kube-scheduler"), "--kubeconfig=/nonexistent", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def test_every_gate_that_the_help_lists_has_its_stage_and_default_in_the_table() -> None:
    listed = {name: (stage, default) for name, stage, default in _LINE.findall(kube_scheduler("--help"))}
    assert len(listed) > 100
    whole_stages = {"AllAlpha", "AllBeta"}
    assert {
        name: (GATES[name].stage.value, str(GATES[name].default).lower()) for name in listed.keys() - whole_stages
    } == {name: listed[name] for name in listed.keys() - whole_stages}
    unlisted = {name for name in GATES if name not in listed}
    assert all(GATES[name].stage in (Stage.STABLE, Stage.DEPRECATED) for name in unlisted), "help leaves these out"


@pytest.mark.parametrize(
    "gates",
    [
        "Nope=true",
        "wardle:PodLevelResources=true",
        "kube:PodLevelResources=true,NodeDeclaredFeatures=true",
        "SchedulerQueueingHints=false",
        "PodLevelResources",
        "PodLevelResources=maybe",
        "NodeDeclaredFeatures=false",
        "TopologyAwareWorkloadScheduling=true",
    ],
)
def test_what_kube_scheduler_refuses_is_refused_in_its_words(gates: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_feature_gates(gates)
    answer = kube_scheduler(f"--feature-gates={gates}")
    said = [fault.message for fault in caught.value.faults if "not supported by Tandem" not in fault.message]
    assert said
    for message in said:
        assert message.replace('"', '\\"') in answer


def test_every_gate_at_its_default_is_accepted_by_both() -> None:
    stated = ",".join(f"kube:{name}={str(gate.default).lower()}" for name, gate in GATES.items())
    parse_feature_gates(stated)
    answer = kube_scheduler(f"--feature-gates={stated}")
    assert "unrecognized feature gate" not in answer
    assert "stat /nonexistent" in answer, "the gates were accepted, and the next step failed"
