"""Promise: from a fresh clone, the README's commands give what it shows, on the demo and on a cluster."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e import builders
from e2e.controlplane.processes import Process
from e2e.provider import Cluster
from e2e.room import Room
from scheduler.simulate.ports import free_ports

pytestmark = [pytest.mark.tandem_only, pytest.mark.long]

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
INSTALL = (ROOT / "docs" / "install.md").read_text()


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is committed, in a folder that has seen nothing else."""
    folder = tmp_path_factory.mktemp("clone") / "tandem"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True, timeout=60)
    return folder


@pytest.fixture(scope="module")
def demo(clone: Path) -> str:
    """The first command of the README, which makes the environment, too; its output."""
    (command,) = re.findall(r"^(make demo)\b", README, re.MULTILINE)
    done = subprocess.run(command.split(), cwd=clone, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("page", [README, INSTALL], ids=["README", "install"])
def test_the_demo_prints_what_the_page_shows(demo: str, page: str) -> None:
    """Line by line, in that order; times, chosen nodes and generated names are others each time."""
    blocks = re.findall(r"^```text\n(.*?)^```", page, re.M | re.S)
    (shown,) = (block for block in blocks if re.search(r" 1/\d+ ", block))
    printed = iter(_stable(demo))
    for line in _stable(shown):
        if line and line != "…":
            beginning = line.removesuffix(" …")
            assert any(other.startswith(beginning) for other in printed), line


def test_the_cluster_of_the_demo_stays_up_and_every_command_that_it_prints_works(
    demo: str, clone: Path, cluster: Cluster, tmp_path: Path
) -> None:
    (command,) = re.findall(r"`(\S*tandem demo --serve)`", README)
    with _running(command.split(), clone, tmp_path / "serve.log", "tandem why huge") as output:
        offered = re.findall(r"^  ((?:kubectl|tandem) .*)$", output, re.MULTILINE)
        assert len(offered) >= 4
        answers = {line: _run(line, clone, cluster) for line in offered}
        kubeconfig = re.search(r"--kubeconfig (\S+)", output)
        server = re.search(r"--server (\S+)", output)
        assert kubeconfig and server
        pod = tmp_path / "first.yaml"
        (text,) = re.findall(r"^```yaml\n(.*?)^```", INSTALL, re.M | re.S)
        pod.write_text(text)
        _run(f"kubectl --kubeconfig {kubeconfig[1]} apply -f {pod}", clone, cluster)
        (ask,) = re.findall(r"^(tandem why default/first)$", README, re.MULTILINE)
        assert "default/first" in _run(f"{ask} --server {server[1]}", clone, cluster)
    (pods,) = (text for line, text in answers.items() if "get pods" in line)
    assert "trainer" in pods and "node-gpu" in pods
    (why,) = (text for line, text in answers.items() if line.startswith("tandem why huge"))
    assert "default/huge" in why and "node-big" in why


def test_on_a_cluster_it_runs_as_the_page_says_and_answers(
    demo: str, clone: Path, cluster: Cluster, room: Room, tmp_path: Path
) -> None:
    room.add_nodes(builders.node("a"))
    (command,) = re.findall(r"^(\S*tandem run --kubeconfig.*)$", INSTALL, re.MULTILINE)
    (port,) = free_ports(1)
    words = [*command.replace("~/.kube/config", str(cluster.kubeconfig)).split(), f"--secure-port={port}"]
    with _running(words, clone, tmp_path / "run.log", "Starting"):
        room.add_pods(builders.pod("first", room.name))
        room.wait_bound(1, 60)
        answer = _run(f"tandem why {room.name}/first --server http://127.0.0.1:{port}", clone, cluster)
        assert f"{room.name}/first" in answer and " a" in answer
        assert "Pending" not in _run(f"tandem queue --server http://127.0.0.1:{port}", clone, cluster)


def _run(line: str, clone: Path, cluster: Cluster) -> str:
    """The output of a command as a page prints it; `tandem` is the clone's, `kubectl` the tests'."""
    program, *rest = line.split()
    path = clone / program if "/" in program else clone / ".venv" / "bin" / program
    if program == "kubectl":
        path = cluster.programs / program
    done = subprocess.run([str(path), *rest], cwd=clone, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


@contextmanager
def _running(words: list[str], clone: Path, log: Path, sign: str) -> Iterator[str]:
    """What the command has printed once the sign is there; it runs within the block and is ended after it."""
    process = Process("user", [str(clone / words[0]), *words[1:]], log, directory=clone).start()
    try:
        process.wait_until(lambda: sign in log.read_text(), 90)
        yield log.read_text()
    finally:
        process.stop(20)


def _stable(text: str) -> list[str]:
    """The lines without what differs from run to run."""
    found = []
    for line in text.splitlines():
        line = re.sub(r"^\[ *[\d.]+ s\] ?", "", line.strip())
        line = re.sub(r"\b(web|crunch|filler)-[a-z0-9]+(?:-[a-z0-9]+)?", r"\1-X", line)
        found.append(re.sub(r"\bnode-[abc]\b", "node-N", line).strip())
    return found
