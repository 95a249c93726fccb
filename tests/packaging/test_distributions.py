"""``pip install tandem-scheduler``: wheel and sdist hold what they should, and work where they are installed."""

from __future__ import annotations

import email
import email.message
import re
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path

from tests.packaging.building import ROOT, Distributions, files_of_the_repository

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def metadata(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(distributions: Distributions) -> None:
    with zipfile.ZipFile(distributions.wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == {name for name in files_of_the_repository() if name.startswith("scheduler/")}
    assert "scheduler/py.typed" in packed


def test_the_sdist_holds_every_file_of_the_repository(distributions: Distributions) -> None:
    with tarfile.open(distributions.sdist) as archive:
        packed = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    assert not set(files_of_the_repository()) - packed


def test_the_metadata_says_what_it_is_and_where(distributions: Distributions) -> None:
    stated = metadata(distributions.wheel)
    assert (stated["Name"], stated["Version"]) == ("tandem-scheduler", PROJECT["version"])
    assert stated["License-Expression"] == "Apache-2.0"
    assert stated["License-File"] == "LICENSE"
    assert stated["Requires-Python"] == PROJECT["requires-python"]
    assert {url.partition(", ")[0] for url in stated.get_all("Project-URL", [])} == PROJECT["urls"].keys()
    assert "Typing :: Typed" in stated.get_all("Classifier", [])


def test_every_link_of_the_long_description_leads_to_a_file_of_the_source(distributions: Distributions) -> None:
    stated = metadata(distributions.wheel)
    assert stated["Description-Content-Type"] == "text/markdown"
    text = str(stated.get_payload())
    links = re.findall(r"(?<!!)\[[^\]]*\]\(([^)]+)\)", text)
    assert len(links) > 10
    source = PROJECT["urls"]["Source"]
    for link in links:
        if link.startswith(source):
            assert (ROOT / link.removeprefix(source).partition("#")[0]).exists(), link
        else:
            assert link.startswith(("#", "https://")), link


def test_the_installed_commands_work_outside_of_a_checkout(installed: Path, tmp_path: Path) -> None:
    def run(*words: str) -> str:
        command = [str(installed / words[0]), *words[1:]]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert PROJECT["version"] in run("tandem", "version")
    configuration = tmp_path / "scheduler.yaml"
    configuration.write_text((ROOT / "manifests" / "base" / "scheduler.yaml").read_text())
    run("tandem", "check-config", str(configuration))
    assert "kubectl tandem why" in run("kubectl-tandem", "why", "--help")
    assert run("kubectl_complete-tandem", "why", "--namesp").split("\t")[0] == "--namespace"
    where = run("python", "-c", "import scheduler, scheduler.plugin, scheduler.testing; print(scheduler.__file__)")
    assert Path(where.strip()).is_relative_to(installed.parent)


def test_the_demo_runs_from_what_is_installed(installed: Path, tmp_path: Path) -> None:
    command = [str(installed / "tandem"), "demo"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "15/15" in done.stdout
