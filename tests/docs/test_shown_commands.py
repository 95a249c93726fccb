"""Every command that README.md and docs/ show in a shell block is run: here, by the test that the block names, or it
says why it can't be.

A block of ``tandem`` commands is run here, line by line, against a scheduler that runs beside an embedded cluster.
Above any other block stands a comment: ``<!-- run by tests/x.py -->``, with the test that runs it, or
``<!-- not run: why -->``. What docs/ask-it.md and docs/groups.md show with output is compared by their own tests.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from scheduler.cli.main import main
from scheduler.simulate.apiserver.kinds import NAMESPACES, NODES, PODS
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.simulate.demo import ShippedScheduler
from scheduler.testing.documents import node_json, pod_json
from tests.limits import WAIT_SECONDS

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if "kube-scheduler" not in path.parts),
]
_BLOCK = re.compile(r"(?:^<!-- (run by|not run:) (.+?) -->\n)?^```(sh|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ASKING = {"why", "queue", "what-if", "capacity", "nodes", "decisions"}
OTHERS_RUN = {"docs/ask-it.md": "tests/docs/test_ask_it.py", "docs/groups.md": "tests/docs/test_groups_page.py"}
"""Pages whose blocks with output are compared by a test of their own."""


@dataclass(frozen=True)
class Block:
    page: str
    mark: str
    about: str
    language: str
    text: str

    @property
    def lines(self) -> list[str]:
        """Command lines: continued ones joined, comments left out. With output beside them they begin with ``$``."""
        joined = self.text.replace("\\\n", " ").splitlines()
        if self.language == "console":
            joined = [line.removeprefix("$ ") for line in joined if line.startswith("$ ")]
        return [line.partition(" #")[0].strip() for line in joined if line.strip() and not line.startswith("#")]


def blocks() -> list[Block]:
    return [
        Block(page.relative_to(ROOT).as_posix(), *(match or "" for match in found.groups()))
        for page in PAGES
        for found in _BLOCK.finditer(page.read_text())
    ]


HERE = [block for block in blocks() if not block.mark and block.page not in OTHERS_RUN]


def test_every_block_is_run_or_says_why_not() -> None:
    assert len(HERE) >= 4
    for block in blocks():
        if block.mark == "run by":
            path = ROOT / block.about
            assert path.is_file(), f"{block.page}: {block.about}"
        elif block.mark:
            assert len(block.about.split()) > 3, f"{block.page}: a reason, please: {block.about}"
        elif block.page in OTHERS_RUN:
            assert (ROOT / OTHERS_RUN[block.page]).is_file()
        else:
            strange = [line for line in block.lines if not line.startswith("tandem ")]
            assert not strange, f"{block.page}: what runs these? Mark the block: {strange}"


def test_a_test_that_is_named_says_the_command() -> None:
    """At least its first word, and the word after it, or the page that it reads the command from."""
    for block in blocks():
        if block.mark != "run by":
            continue
        source = (ROOT / block.about).read_text()
        page = Path(block.page).name
        for line in block.lines:
            words = shlex.split(line)[:2]
            assert page in source or all(Path(word).name in source for word in words), f"{block.page}: {line}"


@asynccontextmanager
async def scheduler(folder: Path) -> AsyncIterator[ShippedScheduler]:
    """One that runs, on a cluster with everything that the pages name."""
    async with EmbeddedCluster() as cluster:
        for namespace in ("tandem-system", "shop"):
            cluster.registry.create(NAMESPACES, "", {"metadata": {"name": namespace}})
        for name in ("node-1", "node-2"):
            cluster.registry.create(NODES, "", node_json(name, cpu="4"))
        for name, cpu in (("first", "9"), ("web-1", "1")):
            cluster.registry.create(PODS, "default", pod_json(name, cpu=cpu))
        async with ShippedScheduler(cluster.kubeconfig(folder / "kubeconfig"), folder / "log") as shipped:
            async with asyncio.timeout(WAIT_SECONDS):
                while not all([await is_decided(shipped, name) for name in ("first", "web-1")]):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            yield shipped


async def is_decided(shipped: ShippedScheduler, name: str) -> bool:
    return bool((await shipped.why(f"default/{name}")).get("attempt"))


def files_into(folder: Path) -> None:
    """The files that the commands of the pages name."""
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    for name in ("scheduler.yaml", "config.yaml"):
        (folder / name).write_bytes(msgspec.yaml.encode(head))
    (folder / "plugins").mkdir()
    (folder / "manifests" / "base").mkdir(parents=True)
    (folder / "manifests" / "base" / "scheduler.yaml").write_text((ROOT / "manifests/base/scheduler.yaml").read_text())
    shop = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "shop"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "shop"}},
            "template": {
                "metadata": {"labels": {"app": "shop"}},
                "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
            },
        },
    }
    (folder / "shop.yaml").write_bytes(msgspec.yaml.encode(shop))


async def test_every_command_of_ours_that_is_shown_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    files_into(tmp_path)
    monkeypatch.chdir(tmp_path)
    ran = set()
    async with scheduler(tmp_path) as shipped:
        for block in HERE:
            for line in block.lines:
                words = shlex.split(line.partition(" > ")[0])[1:]
                if words[0] in ASKING:
                    # The last one counts: the address that a page shows is not served here.
                    words += ["--server", shipped.url]
                code = await asyncio.to_thread(main, words)
                printed = capfd.readouterr()
                assert code == 0, f"{block.page}: {line}: {printed.err}"
                assert printed.out.strip() or "--write-config-to" in words, f"{block.page}: {line}: prints nothing"
                ran.add(words[0])
    assert ASKING | {"check-config", "run", "version", "completion"} <= ran
    assert "kind: KubeSchedulerConfiguration" in (tmp_path / "complete.yaml").read_text()
