"""The Helm chart, as far as it can be read without Helm; ``e2e/test_chart.py`` renders and installs it."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import pytest
import yaml

from scheduler.config.durations import parse_duration
from scheduler.config.tandem import LIMIT_RANGES
from tests.manifests import values_schema
from tests.manifests.documents import CONFIGURATION, ROOT, container, pod_spec

CHART = ROOT / "charts" / "tandem-scheduler"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
# Values whose own keys are the user's or another document's.
OPAQUE = {"configuration.kubeScheduler", "configuration.tandem", "resources"}


def leaves(values: dict[str, Any], path: str = "") -> list[str]:
    """The paths of the values that can be set."""
    found = []
    for key, value in values.items():
        name = f"{path}{key}"
        found += leaves(value, f"{name}.") if isinstance(value, dict) and value and name not in OPAQUE else [name]
    return found


def test_the_versions_of_the_chart_are_that_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert (chart["version"], chart["appVersion"]) == (version, version)


def test_every_value_is_described_and_in_the_schema() -> None:
    text = (CHART / "values.yaml").read_text().splitlines()
    described = sum(1 for line in text if line.lstrip().startswith("# -- "))
    assert len(leaves(VALUES)) == described
    for path in leaves(VALUES):
        place = SCHEMA
        for step in path.split("."):
            place = place["properties"][step]


def test_the_configuration_s_part_of_the_schema_is_made_from_its_types() -> None:
    assert values_schema.FILE.read_text() == values_schema.written(), (
        "python -m tests.manifests.values_schema writes it"
    )


def test_the_schema_lets_no_field_through_that_the_configuration_does_not_have() -> None:
    definitions = SCHEMA["definitions"]
    assert all(part["additionalProperties"] is False for part in definitions.values())
    configuration = SCHEMA["properties"]["configuration"]["properties"]
    assert set(configuration) == {"kubeScheduler", "tandem"}
    assert all(part["$ref"].rpartition("/")[2] in definitions for part in configuration.values())
    assert "strict" in definitions["PreemptionSettings"]["properties"]["pdbPolicy"]["enum"]
    ends = [(one["minimum"], one["maximum"]) for one in definitions["Limits"]["properties"].values() if one]
    assert set(LIMIT_RANGES.values()) <= set(ends)


@pytest.mark.parametrize(
    "text", ["0", "-0", "1m30s", "+1.5h", ".5s", "1.s", "3µs", "3μs", "7", "5x", "", "s", ".s", "1m ", "1m5"]
)
def test_the_schema_takes_for_a_duration_what_is_one(text: str) -> None:
    try:
        parse_duration(text)
        is_one = True
    except ValueError:
        is_one = False
    assert bool(re.search(values_schema.DURATION, text)) == is_one


def test_a_part_of_the_values_that_a_template_looks_into_cannot_be_taken_away() -> None:
    texts = "".join(file.read_text() for file in (CHART / "templates").iterdir())
    assert sorted(set(re.findall(r"\.Values\.(\w+)\.\w", texts))) == sorted(SCHEMA["required"])


def test_the_schema_knows_no_value_that_is_not_there() -> None:
    def check(schema: dict[str, Any], values: Any, path: str) -> None:
        if path in OPAQUE:
            return
        for key, inner in schema.get("properties", {}).items():
            if (path, key) != ("", "global"):
                assert key in values, f"{path}.{key}"
                check(inner, values[key], f"{path}.{key}".lstrip("."))

    check(SCHEMA, VALUES, "")


@pytest.mark.parametrize("name", ["roles.yaml", "reader.yaml", "alerts.yaml", "dashboard.json"])
def test_what_the_chart_shares_with_the_manifests_is_one_file(name: str) -> None:
    link = CHART / "files" / name
    assert link.is_symlink() and link.resolve().is_relative_to(ROOT / "manifests")


def test_every_value_that_a_template_reads_is_there() -> None:
    known = set(leaves(VALUES))
    for file in (CHART / "templates").iterdir():
        for path in re.findall(r"\.Values\.([\w.]+)", file.read_text()):
            assert any(f"{each}.".startswith(f"{path}.") or f"{path}.".startswith(f"{each}.") for each in known), path


def test_the_defaults_are_those_of_the_base() -> None:
    kube, tandem = yaml.safe_load_all(CONFIGURATION.read_text())
    for document in (kube, tandem):
        del document["apiVersion"], document["kind"]
    kube["leaderElection"] = {"leaderElect": kube["leaderElection"]["leaderElect"]}
    assert VALUES["configuration"] == {"kubeScheduler": kube, "tandem": tandem}
    assert VALUES["resources"] == container()["resources"]
    assert VALUES["tolerations"] == pod_spec()["tolerations"]
