"""Every command that README.md and docs/ show in a shell block is run: here, by the test that the block names, or it
says why it can't be.

A block of ``tandem`` commands is run here, line by line, against a scheduler that runs beside an embedded cluster; in a
``console`` block each command stands after ``$``, and what it prints is compared with what is shown, where ``…`` stands
for times and what is left out.
Above any other block, and above a ``text`` block, stands a comment: ``<!-- run by tests/x.py -->``, with the test that
runs it or compares it, or ``<!-- not run: why -->``. What docs/ask-it.md and docs/groups.md show with output is
compared by their own tests.
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
from scheduler.simulate.apiserver.kinds import NAMESPACES, NODES, PODS, RESOURCE_CLAIMS
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.simulate.demo import ShippedScheduler
from scheduler.simulate.demo_devices import add_devices
from scheduler.testing.documents import node_json, pod_json
from tests.limits import WAIT_SECONDS

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if "kube-scheduler" not in path.parts),
]
_BLOCK = re.compile(
    r"(?:^<!-- (run by|not run:) ([^\n]+?) -->\n)?^```(sh|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE
)
_TEXT = re.compile(r"(?:^<!-- (run by|not run:) (.+?) -->\n)?^```text\n", re.MULTILINE)
COLUMNS = 100
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

    @property
    def shown(self) -> list[tuple[str, list[str]]]:
        """Each command of a ``console`` block with the lines that it prints."""
        parts = re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]
        return [(command, _lines(output)) for command, _, output in (part.partition("\n") for part in parts)]


def blocks() -> list[Block]:
    return [
        Block(page.relative_to(ROOT).as_posix(), *(match or "" for match in found.groups()))
        for page in PAGES
        for found in _BLOCK.finditer(page.read_text())
    ]


def _lines(text: str) -> list[str]:
    """Without colours and trailing spaces; empty lines do not count."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return [line.rstrip() for line in plain.splitlines() if line.strip()]


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


def test_every_block_of_text_is_compared_or_says_why_not() -> None:
    found = [(page.relative_to(ROOT).as_posix(), *block) for page in PAGES for block in _TEXT.findall(page.read_text())]
    assert len(found) > 8
    for page, mark, about in found:
        if mark == "run by":
            source = (ROOT / about).read_text()
            assert Path(page).name in source or f'_page("{Path(page).stem}")' in source, f"{page}: {about}"
        elif mark:
            assert len(about.split()) > 3, f"{page}: a reason, please: {about}"
            named = re.search(r"tests/[\w/]+\.py", about)
            assert named is None or (ROOT / named[0]).is_file(), f"{page}: {about}"
        else:
            assert page in OTHERS_RUN, f"{page}: what compares this block of text? Mark it"


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


DECIDED = ("first", "web-1", "train")


@asynccontextmanager
async def scheduler(folder: Path) -> AsyncIterator[ShippedScheduler]:
    """One that runs, on a cluster with everything that the pages name."""
    async with EmbeddedCluster() as cluster:
        for namespace in ("tandem-system", "shop"):
            cluster.registry.create(NAMESPACES, "", {"metadata": {"name": namespace}})
        # Of different sizes, so that no choice is left to chance.
        for name, cpu in (("node-1", "4"), ("node-2", "2")):
            cluster.registry.create(NODES, "", node_json(name, cpu=cpu, memory="8Gi", pods=20, zone="a"))
        for name, cpu in (("first", "9"), ("web-1", "1")):
            cluster.registry.create(PODS, "default", pod_json(name, cpu=cpu, memory="256Mi"))
        add_devices(cluster.registry, "default", "node-1")
        exactly = {"deviceClassName": "gpus", "count": 4}
        asked = {"devices": {"requests": [{"name": "pair", "exactly": exactly}]}}
        cluster.registry.create(RESOURCE_CLAIMS, "default", {"metadata": {"name": "four"}, "spec": asked})
        claiming = [{"name": "gpus", "resourceClaimName": "four"}]
        cluster.registry.create(PODS, "default", pod_json("train", cpu="1", spec={"resourceClaims": claiming}))
        async with ShippedScheduler(cluster.kubeconfig(folder / "kubeconfig"), folder / "log") as shipped:
            async with asyncio.timeout(WAIT_SECONDS):
                while not all([await is_decided(shipped, name) for name in DECIDED]):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            yield shipped


async def is_decided(shipped: ShippedScheduler, name: str) -> bool:
    return bool((await shipped.why(f"default/{name}")).get("attempt"))


def files_into(folder: Path) -> None:
    """The files that the commands of the pages name."""
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    for name in ("scheduler.yaml", "config.yaml"):
        (folder / name).write_bytes(msgspec.yaml.encode(head))
    wrong = {**head, "profiles": [{"plugins": {"score": {"enabled": [{"name": "NodeResourceFit"}]}}}]}
    (folder / "wrong.yaml").write_bytes(msgspec.yaml.encode(wrong))
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


def check_output(shown: list[str], printed: list[str], what: str) -> None:
    """A line ``…`` stands for any number of lines, ``…`` in a line for any text."""
    pattern = "".join(
        "(?:.*\n)*" if line.strip() == "…" else re.escape(line).replace("…", ".*") + "\n" for line in shown
    )
    assert re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)), f"{what}:\n" + "\n".join(printed)


async def test_every_command_of_ours_that_is_shown_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    files_into(tmp_path)
    monkeypatch.chdir(tmp_path)
    ran = set()
    async with scheduler(tmp_path) as shipped:
        for block in HERE:
            if block.language == "console":
                continue
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
        compared = 0
        monkeypatch.setenv("COLUMNS", str(COLUMNS))
        for block in HERE:
            for line, output in block.shown if block.language == "console" else ():
                words = shlex.split(line)[1:]
                words += ["--server", shipped.url] if words[0] in ASKING else []
                code = await asyncio.to_thread(main, words)
                printed = capfd.readouterr()
                is_refused = output[0].startswith("Error: ")
                assert code == is_refused, f"{block.page}: {line}: {printed.err}"
                check_output(output, _lines(printed.err if is_refused else printed.out), f"{block.page}: {line}")
                compared += 1
        assert compared >= 7
    assert ASKING | {"check-config", "run", "version", "completion"} <= ran
    assert "kind: KubeSchedulerConfiguration" in (tmp_path / "complete.yaml").read_text()
