"""Dashboard and alerts: they ask for what a scheduler's metrics page really offers."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.controller.report.metrics import SchedulerMetrics
from tests.manifests import queries
from tests.manifests.documents import MANIFESTS, ROOT, Document, the

MONITORING = MANIFESTS / "overlays" / "monitoring"


def panels() -> list[Document]:
    dashboard: Document = json.loads((MONITORING / "dashboard.json").read_text())
    return list(dashboard["panels"])


def alerts() -> list[Document]:
    return [rule for group in the("PrometheusRule", MONITORING)["spec"]["groups"] for rule in group["rules"]]


ASKED = [
    *((rule["alert"], rule["expr"]) for rule in alerts()),
    *((panel["title"], target["expr"]) for panel in panels() for target in panel.get("targets", ())),
]


@pytest.mark.parametrize(("asker", "query"), ASKED)
async def test_each_query_asks_for_series_and_labels_that_exist(
    series: dict[str, frozenset[str]], asker: str, query: str
) -> None:
    # Prometheus itself makes "up" of each scrape.
    names = queries.names(query) - {"up"}
    assert names or asker in ("TandemSchedulerDown", "Copies that answer")
    assert names <= series.keys()
    offered = frozenset().union(*(series[name] for name in names)) | queries.ADDED_BY_PROMETHEUS
    assert queries.labels(query) <= offered


def test_an_alert_that_nothing_happens_fires_where_nothing_ever_has() -> None:
    """A series with labels begins with the first of what it counts: until then a comparison with it has no result."""
    there = {sample.name for metric in SchedulerMetrics().instruments.collect() for sample in metric.samples}
    quiet = [rule["expr"] for rule in alerts() if "== 0" in rule["expr"]]
    assert quiet
    for expression in quiet:
        counted = set(re.findall(r"rate\((\w+)", expression))
        assert counted <= there or "or vector(0)) == 0" in expression


UPSTREAM = json.loads((Path(__file__).parent / "upstream_series.json").read_text())


def _family(series_name: str) -> str:
    return re.sub(r"_(bucket|count|sum)$", "", series_name)


@pytest.mark.parametrize("asked", UPSTREAM["asked"], ids=lambda asked: f"{asked['series']} {' '.join(asked['labels'])}")
async def test_dashboards_made_for_kube_scheduler_find_their_series_and_labels(
    series: dict[str, frozenset[str]], asked: dict[str, Any]
) -> None:
    name = asked["series"]
    if name == "up" or _family(name) in UPSTREAM["absent"]:
        return
    given = queries.ADDED_BY_PROMETHEUS | set(UPSTREAM["labels_of_prometheus"])
    missing = UPSTREAM["absent_labels"].get(name, {}).keys()
    assert set(asked["labels"]) - missing <= series[name] | given


async def test_what_such_dashboards_do_not_find_is_really_absent(series: dict[str, frozenset[str]]) -> None:
    assert not UPSTREAM["absent"].keys() & {_family(name) for name in series}
    for name, labels in UPSTREAM["absent_labels"].items():
        assert not labels.keys() & series[name]


@pytest.mark.parametrize(("asker", "query"), ASKED)
async def test_what_a_rate_is_taken_of_is_a_counter_or_a_histogram(
    series: dict[str, frozenset[str]], asker: str, query: str
) -> None:
    for name in re.findall(r"\b(?:rate|increase|irate)\(\s*([a-zA-Z_:][\w:]*)", query):
        assert name.endswith(("_total", "_bucket", "_count", "_sum")), asker


@pytest.mark.parametrize(("asker", "query"), ASKED)
def test_each_query_asks_for_this_scheduler_alone(asker: str, query: str) -> None:
    selectors = re.findall(r"\b(?:scheduler|tandem|process|leader|up)\w*(\{[^}]*\})?", query)
    assert selectors and all('job="tandem-scheduler"' in selector for selector in selectors)


COUNTED_BY_EACH_COPY = (
    "scheduler_cache_size",
    "scheduler_pending_pods",
    "scheduler_queue_incoming_pods_total",
    "scheduler_unschedulable_pods",
    "tandem_objects",
    "tandem_unreadable_objects",
)
"""Series that a copy without the Lease has, too, of the same pods and objects."""
_LEADER_ALONE = (
    r"(?:\[[^]]*\]\))? unless on \(namespace, pod, instance\) \(leader_election_master_status\{[^}]*\} == 0\)"
)


@pytest.mark.parametrize(("asker", "query"), ASKED)
def test_what_each_copy_counts_is_not_added_up_over_the_copies(asker: str, query: str) -> None:
    flat = " ".join(query.split())
    for found in re.finditer(rf"\b(?:{'|'.join(COUNTED_BY_EACH_COPY)})\{{[^}}]*\}}", flat):
        *_, (function, kept) = re.findall(r"\b(sum|max)\b(?: by \(([^)]*)\))?", flat[: found.start()])
        is_one_copy = function == "max" or "instance" in kept or re.match(_LEADER_ALONE, flat[found.end() :])
        assert is_one_copy, asker


def test_pods_that_wait_while_no_copy_leads_are_noticed() -> None:
    (expression,) = [rule["expr"] for rule in alerts() if rule["alert"] == "TandemSchedulerStandsStill"]
    of_any_copy = 'or max(scheduler_pending_pods{job="tandem-scheduler", queue="active"})'
    assert of_any_copy in " ".join(expression.split())


def test_a_query_is_taken_apart_into_names_and_labels() -> None:
    query = 'sum by (le, kind) (rate(a_bucket{job="x", result!~"y|z"}[5m])) / on(pod) b:c > bool 3'
    assert queries.names(query) == {"a_bucket", "b:c"}
    assert queries.labels(query) == {"le", "kind", "job", "result", "pod"}


def test_texts_of_alerts_use_labels_that_the_alert_keeps() -> None:
    for rule in alerts():
        used = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        kept = {name for group in re.findall(r"\bby\s*\(([^)]*)\)", rule["expr"]) for name in group.split(", ")}
        assert used <= kept, rule["alert"]


def test_every_alert_says_how_bad_it_is_and_what_is_the_matter() -> None:
    for rule in alerts():
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
    assert len({rule["alert"] for rule in alerts()}) == len(alerts())


def test_every_alert_links_a_runbook_that_is_there() -> None:
    address = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Documentation"]
    runbooks = re.findall(r"^## (Tandem\w+)\n\n(.+?)(?=\n## |\Z)", (ROOT / "docs/runbooks.md").read_text(), re.M | re.S)
    assert [name for name, _ in runbooks] == [rule["alert"] for rule in alerts()]
    assert all("- **Means**: " in text and "- **Look**: " in text for _, text in runbooks)
    for rule in alerts():
        assert rule["annotations"]["runbook_url"] == f"{address}runbooks/#{rule['alert'].lower()}"


async def test_the_dashboard_can_be_narrowed_to_namespaces_and_profiles(series: dict[str, frozenset[str]]) -> None:
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    variables = {each["name"]: each for each in dashboard["templating"]["list"]}
    assert variables.keys() == {"datasource", "namespace", "profile"}
    for name in ("namespace", "profile"):
        asked = re.fullmatch(r"label_values\((\w+)\{.*\}, (\w+)\)", variables[name]["definition"])
        assert asked and asked[2] == name
        assert asked[1] == "up" or name in series[asked[1]]
    for panel in panels():
        for target in panel.get("targets", ()):
            for metric, selector in re.findall(r"(\w+)\{([^}]*)\}", target["expr"]):
                assert 'namespace=~"$namespace"' in selector
                assert ('profile=~"$profile"' in selector) == ("profile" in series.get(metric, ())), metric


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        squares = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not squares & taken, panel["title"]
        taken |= squares
    assert len({panel["id"] for panel in panels()}) == len(panels())


def test_the_series_bear_the_job_name_that_everything_asks_for() -> None:
    monitor = the("ServiceMonitor", MONITORING)["spec"]
    service = the("Service")
    assert service["metadata"]["labels"][monitor["jobLabel"]] == "tandem-scheduler"
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    ports = {port["name"] for port in service["spec"]["ports"]}
    assert {endpoint["port"] for endpoint in monitor["endpoints"]} <= ports


def test_the_dashboard_is_in_the_config_map_that_grafana_looks_for() -> None:
    kustomization: dict[str, Any] = yaml.safe_load((MONITORING / "kustomization.yaml").read_text())
    (generator,) = kustomization["configMapGenerator"]
    assert generator["options"]["labels"] == {"grafana_dashboard": "1"}
    assert [name.partition("=")[2] for name in generator["files"]] == ["dashboard.json"]
