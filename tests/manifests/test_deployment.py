"""The Deployment: its flags and configuration are such as the scheduler takes, and it is as confined as it can be."""

from __future__ import annotations

import re
import tomllib

from scheduler.cli.prepare import prepare
from scheduler.cli.shell_settings import own_pod
from scheduler.config.loading import load
from scheduler.config.tandem import Nominations
from scheduler.controller.assembly import LEASE_OVERDUE_SECONDS
from scheduler.controller.run import EVENT_SETTLE_SECONDS
from scheduler.messages.references import PodReference
from tests.manifests.documents import CONFIGURATION, ROOT, container, deployed_flags, pod_spec, the


def test_the_configuration_is_valid_and_deserves_no_warning() -> None:
    configuration = load(CONFIGURATION.read_bytes())
    assert configuration.warnings == ()
    assert [profile.scheduler_name for profile in configuration.kube.profiles] == ["tandem-scheduler"]


def test_beside_another_scheduler_its_nominations_count() -> None:
    assert load(CONFIGURATION.read_bytes()).tandem.nominations is Nominations.ALL


def test_the_lease_is_our_own_and_lies_in_our_namespace() -> None:
    election = load(CONFIGURATION.read_bytes(), own_namespace="elsewhere").kube.leader_election
    assert election.leader_elect
    assert (election.resource_namespace, election.resource_name) == (
        the("Namespace")["metadata"]["name"],
        "tandem-scheduler",
    )


def test_the_command_line_takes_the_deployments_flags_without_a_warning() -> None:
    prepared = prepare(deployed_flags())
    assert prepared.warnings == ()
    (port,) = container()["ports"]
    assert prepared.settings.serving.port == port["containerPort"]
    (service_port,) = the("Service")["spec"]["ports"]
    assert service_port["port"] == port["containerPort"]


def test_probes_ask_for_pages_that_are_open_to_them_by_the_scheme_that_is_served() -> None:
    serving = prepare(deployed_flags()).settings.serving
    scheme = "HTTP" if serving.certificate is None else "HTTPS"
    for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        asked = container()[probe]["httpGet"]
        assert (asked["path"], asked["scheme"]) == (path, scheme)
        assert serving.access is None or path in serving.access.open_paths


def test_more_than_one_copy_runs_only_with_leader_election() -> None:
    assert the("Deployment")["spec"]["replicas"] >= 2
    assert prepare(deployed_flags()).settings.leader_election.leader_elect


def test_there_is_time_to_leave_in_order() -> None:
    settings = prepare(deployed_flags()).settings
    needed = settings.settle_seconds + EVENT_SETTLE_SECONDS + settings.leader_election.renew_deadline
    assert pod_spec()["terminationGracePeriodSeconds"] > needed


def test_liveness_is_more_patient_than_the_watchdog_of_the_lease() -> None:
    probe = container()["livenessProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] > LEASE_OVERDUE_SECONDS


def test_it_is_confined_as_the_restricted_standard_asks() -> None:
    labels = the("Namespace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    pod, inner = pod_spec()["securityContext"], container()["securityContext"]
    assert pod["runAsNonRoot"] is True and pod["runAsUser"] > 0
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert inner["allowPrivilegeEscalation"] is False
    assert inner["readOnlyRootFilesystem"] is True
    assert inner["capabilities"] == {"drop": ["ALL"]}
    assert not pod_spec().keys() & {"hostNetwork", "hostPID", "hostIPC"}
    assert all("hostPath" not in volume for volume in pod_spec()["volumes"])


def test_it_knows_its_own_pod() -> None:
    fields = {entry["name"]: entry["valueFrom"]["fieldRef"]["fieldPath"] for entry in container()["env"]}
    assert own_pod(fields) == PodReference("metadata.namespace", "metadata.name", "metadata.uid")


def test_a_changed_configuration_file_is_noticed() -> None:
    assert prepare(deployed_flags()).settings.configuration_file == str(CONFIGURATION)


def test_it_is_never_scheduled_by_itself() -> None:
    assert pod_spec()["schedulerName"] == "default-scheduler"


def test_its_priority_is_one_that_users_may_give() -> None:
    assert the("PriorityClass")["value"] <= 1_000_000_000
    assert not the("PriorityClass")["globalDefault"]


def test_the_image_bears_the_version_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert container()["image"] == f"{project['name']}:{project['version']}"


def test_requests_and_limits_leave_room_for_a_big_cluster_and_never_throttle() -> None:
    resources = container()["resources"]
    assert resources["requests"].keys() == {"cpu", "memory"}
    assert resources["limits"].keys() == {"memory"}
    assert re.fullmatch(r"\d+(Mi|Gi)", resources["limits"]["memory"])
