"""A release: one version everywhere, notes about it, workflows that do what the recipe says, labels on the image."""

from __future__ import annotations

import datetime
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from release import sbom, version
from tests.packaging.building import ROOT

WORKFLOWS = ROOT / ".github" / "workflows"


def test_every_place_bears_the_version_of_the_package() -> None:
    assert version.faults() == []


def test_no_other_file_bears_the_version_of_the_image() -> None:
    known = {place.file for place in version.PLACES}
    for file in ("README.md", "Dockerfile", *(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))):
        if re.search(r"tandem-scheduler:\d", (ROOT / file).read_text()):
            assert file in known


def test_a_new_version_is_written_everywhere_and_dated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*(place.file for place in version.PLACES), "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    monkeypatch.setattr(version, "ROOT", tmp_path)
    unreleased = version.notes(version.UNRELEASED)
    version.set_version("7.8.9", datetime.date(2027, 1, 2))
    assert version.faults() == []
    assert version.current() == "7.8.9"
    assert version.notes("7.8.9") == unreleased
    assert "## 7.8.9 (2027-01-02)" in (tmp_path / "CHANGELOG.md").read_text()
    with pytest.raises(ValueError, match="nothing under Unreleased"):
        version.set_version("7.9.0", datetime.date(2027, 1, 3))
    with pytest.raises(ValueError, match="is no version"):
        version.set_version("next", datetime.date(2027, 1, 3))


def test_the_bill_of_materials_has_every_pin_of_the_image_with_its_hashes() -> None:
    bill = sbom.bill_of_materials()
    pins = re.findall(r"^([a-z0-9][a-z0-9._-]*)==(\S+)", (ROOT / "requirements-runtime.txt").read_text(), re.MULTILINE)
    listed = {(each["name"], each["version"]): each for each in bill["components"]}
    assert listed.keys() == set(pins)
    for each in listed.values():
        assert each["purl"].startswith("pkg:pypi/")
        assert all(reference["hashes"] for reference in each["externalReferences"])
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["version"] == version.current()


def test_the_bill_of_materials_is_printed_as_json() -> None:
    done = subprocess.run([sys.executable, "-m", "release.sbom"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["specVersion"] == "1.6"


def test_the_image_has_the_labels_of_the_open_container_initiative() -> None:
    text = (ROOT / "Dockerfile").read_text()
    labels = set(re.findall(r"org\.opencontainers\.image\.(\w+)=", text))
    assert {"title", "description", "licenses", "version", "revision", "source", "documentation"} <= labels
    assert {"VERSION", "REVISION"} <= set(re.findall(r"^ARG (\w+)", text, re.MULTILINE))


# --- workflows --------------------------------------------------------------------------------------------------------


def steps(name: str) -> list[dict[str, str]]:
    jobs = yaml.safe_load((WORKFLOWS / name).read_text())["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


@pytest.mark.parametrize("name", sorted(path.name for path in WORKFLOWS.glob("*.yaml")))
def test_a_workflow_has_few_rights_limits_and_named_versions(name: str) -> None:
    workflow = yaml.safe_load((WORKFLOWS / name).read_text())
    assert workflow["permissions"] == {"contents": "read"}, "what a job needs beyond, it states itself"
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 90
        assert re.search(r"-\d", job["runs-on"])
    for step in steps(name):
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w/-]+@v\d+(\.\d+)*", step["uses"]), step["uses"]


def test_the_workflow_of_a_change_runs_what_must_pass() -> None:
    runs = " ".join(step.get("run", "") for step in steps("ci.yaml"))
    assert ".ci/run" in runs
    assert "E2E_CLUSTER=kind" in runs


def test_every_command_of_ours_in_the_workflows_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for path in WORKFLOWS.glob("*.yaml"):
        for step in steps(path.name):
            run = step.get("run", "")
            for module in re.findall(r"python3? -m (release\.\w+)", run):
                assert (ROOT / f"{module.replace('.', '/')}.py").exists()
            for target in re.findall(r"^make ([\w-]+)", run, re.MULTILINE):
                assert re.search(rf"^{target}:", makefile, re.MULTILINE)
            for file in re.findall(r"(?:charts|manifests)/[\w/.-]+", run):
                assert (ROOT / file).exists()


def test_the_recipe_says_of_every_step_whether_it_has_been_run() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (ROOT / "docs" / "releasing.md").read_text().splitlines()
        if re.match(r"^\| \d+ \|", line)
    ]
    assert [int(row[0]) for row in rows] == list(range(1, len(rows) + 1))
    assert {row[-1].split(":")[0] for row in rows} <= {"run by a test", "run by hand", "not run yet"}
    for row in rows:
        for test in re.findall(r"`(tests/\w+/\w+\.py|e2e/\w+\.py)`", row[-1]):
            assert (ROOT / test).exists()
