"""``docs/support.md``: which Kubernetes versions serve what the scheduler asks for, by their own discovery documents.

``data/discovery.json`` holds, of each version, the groups that are asked for, as that version's source publishes them
(``api/discovery``): resource -> verbs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane.versions import KUBERNETES
from scheduler.controller.rights import Right
from scheduler.objects.kinds import Kind
from tests.docs.pages import DOCS, section
from tests.manifests.roles import deployed_rights

PAGE = (DOCS / "support.md").read_text()
RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "discovery.json").read_text())
VERSIONS = list(RECORDED)
# What kube-apiserver asks for within another write; no resource of its own.
SYNTHETIC = {"pods/finalizers", "resourceclaims/binding"}
# Of an alpha API, asked for only with the gate GenericWorkload; the page says so.
ALPHA = {"podgroups", "podgroups/status"}


def is_served(version: str, right: Right) -> bool:
    group = f"{right.group}/v1" if right.group else "v1"
    return right.verb in RECORDED[version]["groups"].get(group, {}).get(right.resource, ())


def missing(version: str) -> list[Right]:
    return [
        right
        for right in deployed_rights()
        if right.resource not in SYNTHETIC | ALPHA and not is_served(version, right)
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_serves_whatever_the_scheduler_cannot_do_without(version: str) -> None:
    assert [right for right in missing(version) if not right.is_optional] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_version_lacks_is_in_the_table(version: str) -> None:
    lacking = {right.group for right in missing(version)}
    column = VERSIONS.index(version) + 1
    rows = [line.strip("|").split("|") for line in section(PAGE, "API versions").splitlines() if line.startswith("| `")]
    table = {cells[0].strip().strip("`"): cells[column].strip() for cells in rows}
    assert {name.rpartition("/")[0] for name, answer in table.items() if answer == "no"} == lacking
    assert set(table.values()) <= {"yes", "no"}


def test_the_table_has_every_group_that_is_asked_for() -> None:
    asked = {f"{right.group}/v1".lstrip("/") for right in deployed_rights() if right.resource not in ALPHA}
    named = {line.split("`")[1] for line in section(PAGE, "API versions").splitlines() if line.startswith("| `")}
    assert named == asked


def test_every_kind_is_read_in_the_version_that_is_recorded() -> None:
    paths = {kind.entry.collection_path() for kind in Kind}
    others = {path for path in paths if not (path.startswith(("/api/v1/", "/apis/")) and "/v1/" in path)}
    assert {path.rpartition("/")[2] for path in others} <= ALPHA


def test_the_newest_recorded_version_is_the_one_that_is_tested() -> None:
    assert f"v{RECORDED[VERSIONS[-1]]['version']}" == KUBERNETES
