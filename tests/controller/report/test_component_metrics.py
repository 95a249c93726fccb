"""The metrics that every Kubernetes component has."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from scheduler.compose import build_engine
from scheduler.config.feature_gates import parse_feature_gates
from scheduler.config.loading import load
from scheduler.controller.report.component_metrics import RestClientMetrics, add_component_metrics
from scheduler.controller.report.instruments import Instruments
from scheduler.controller.serve.slis import HealthIndicators
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import CredentialSource
from scheduler.engine.pod_resources import resource_page_in_slices
from scheduler.errors import ApiError
from scheduler.messages.now import Now
from scheduler.messages.stimuli import ObjectObserved
from scheduler.objects.kinds import Kind
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.testing.fragments import container_json
from scheduler.testing.objects import pod


def exported(made: Instruments) -> list[str]:
    registry = CollectorRegistry()
    registry.register(made)
    return generate_latest(registry).decode().splitlines()


async def test_requests_are_counted_by_code_method_and_host_as_the_api_server_answers(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    made = Instruments()
    kubeconfig = str(cluster.kubeconfig(tmp_path / "kubeconfig"))
    client = ApiClient(CredentialSource(ConnectionSettings(kubeconfig=kubeconfig), {}))
    client.observe = RestClientMetrics(made).observe
    await client.request("GET", "/api/v1/nodes")
    with pytest.raises(ApiError):
        await client.request("GET", "/api/v1/namespaces/default/pods/absent")
    await client.close()
    host = cluster.url.partition("://")[2]
    lines = exported(made)
    for code in ("200", "404"):
        assert f'rest_client_requests_total{{code="{code}",host="{host}",method="GET"}} 1.0' in lines
    assert f'rest_client_request_duration_seconds_count{{host="{host}",verb="GET"}} 2.0' in lines


async def test_a_request_without_an_answer_is_counted_as_an_error(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    made = Instruments()
    kubeconfig = str(cluster.kubeconfig(tmp_path / "kubeconfig"))
    settings = ConnectionSettings(kubeconfig=kubeconfig, master="http://127.0.0.1:1")
    client = ApiClient(CredentialSource(settings, {}))
    client.observe = RestClientMetrics(made).observe
    with pytest.raises(ApiError):
        await client.request("GET", "/api/v1/nodes")
    await client.close()
    assert 'rest_client_requests_total{code="<error>",host="127.0.0.1:1",method="GET"} 1.0' in exported(made)


def test_build_gates_and_leadership_are_series() -> None:
    made, leads = Instruments(), [False]
    gates = parse_feature_gates("SchedulerPopFromBackoffQ=false")
    add_component_metrics(made, version="1.2", kubernetes="1.36", gates=gates, lease="tandem", leads=lambda: leads[0])
    lines = exported(made)
    assert any(line.startswith("tandem_build_info{") and 'version="1.2"' in line for line in lines)
    assert 'kubernetes_feature_enabled{name="SchedulerPopFromBackoffQ",stage="BETA"} 0.0' in lines
    assert 'leader_election_master_status{name="tandem"} 0.0' in lines
    leads[0] = True
    assert 'leader_election_master_status{name="tandem"} 1.0' in exported(made)


def test_health_checks_are_counted_each_time_they_are_asked() -> None:
    indicators, problem = HealthIndicators(), [""]
    check = indicators.counted("readyz", {"sync": lambda: problem[0]})["sync"]
    check()
    problem[0] = "not yet"
    assert check() == "not yet"
    lines = generate_latest(indicators.registry).decode().splitlines()
    assert 'kubernetes_healthcheck{name="sync",type="readyz"} 0.0' in lines
    for status in ("success", "error"):
        assert f'kubernetes_healthchecks_total{{name="sync",status="{status}",type="readyz"}} 1.0' in lines


def test_the_resources_of_each_pod_are_shown_with_their_units() -> None:
    now = Now(1.0, 10**18)
    engine = build_engine(load(), started=now, seed=1, stopwatch=lambda: 0.0)
    sized = container_json(
        cpu="1500m", requests={"memory": "1Gi", "example.com/gpu": "2"}, resources={"limits": {"cpu": "2"}}
    )
    sized["resources"]["requests"] = {"cpu": "1500m", "memory": "1Gi", "example.com/gpu": "2"}
    engine.handle(ObjectObserved(Kind.POD, pod("a", node="n", priority=7, containers=[sized])), now)
    slices = resource_page_in_slices(engine)
    with pytest.raises(StopIteration) as end:
        next(slices)
    lines = b"".join(end.value.value).decode().splitlines()
    who = 'namespace="default",pod="a",node="n",scheduler="tandem-scheduler",priority="7"'
    assert f'kube_pod_resource_request{{{who},resource="cpu",unit="cores"}} 1.5' in lines
    assert f'kube_pod_resource_request{{{who},resource="memory",unit="bytes"}} {2**30}' in lines
    assert f'kube_pod_resource_request{{{who},resource="example.com/gpu",unit="integer"}} 2' in lines
    assert [line for line in lines if line.startswith("kube_pod_resource_limit")] == [
        f'kube_pod_resource_limit{{{who},resource="cpu",unit="cores"}} 2.0'
    ]
