"""CONTRIBUTING's walk of a pod, against the calls that placing one makes in the shipped shell."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.objects.kinds import Kind
from scheduler.objects.pod import Pod
from scheduler.testing.documents import node_json, pod_json
from tests.controller.conftest import PODS, create, until
from tests.controller.conftest import client as client
from tests.controller.conftest import cluster as cluster
from tests.controller.conftest import connection as connection
from tests.controller.running import running_shell
from tests.docs.walk import Place, calls_between_files

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"
ROW = re.compile(r"^\| (\d+) \| `([^`]+)` \| `([^`]+)` \| (takes from )?(\d*) ?\|", re.MULTILINE)
MAX_FILES = 10
BINDING = "engine/binding_cycle.py"


class Step(NamedTuple):
    file: str
    function: str
    takes: bool
    """It takes what the other step has kept, in place of being called by it."""
    from_step: int


def steps() -> dict[int, Step]:
    found = ROW.findall(PAGE.read_text(encoding="utf-8"))
    return {int(one): Step(file, name, bool(takes), int(of or 0)) for one, file, name, takes, of in found}


def is_made(step: Step, before: Step, calls: set[tuple[Place, Place]]) -> bool:
    place = (step.file, step.function)
    if step.takes:
        return any(caller == place and called[0] == before.file for caller, called in calls)
    return any(caller[0] == before.file and called == place for caller, called in calls)


def test_from_the_line_of_a_watch_to_the_binding_there_are_ten_files() -> None:
    walk = steps()
    files = [walk[number].file for number in sorted(walk)]
    assert list(walk) == list(range(1, len(walk) + 1))
    assert files.index(BINDING) + 1 == len(set(files[: files.index(BINDING) + 1])) <= MAX_FILES
    assert len(set(files)) == len(files)


async def test_each_step_of_the_walk_goes_on_from_the_one_it_names(
    connection: ConnectionSettings, client: ApiClient
) -> None:
    walk = steps()
    await create(client, "/api/v1/nodes", node_json("n1"))
    async with running_shell(connection) as shell:
        await until(lambda: shell.loop.counts.slices > 0 and all(one.synced.is_set() for one in shell.reflectors))
        await shell.inbox.emptied()

        def is_bound() -> bool:
            found = shell.known.get(Kind.POD, "default/a")
            return isinstance(found, Pod) and found.node_name == "n1"

        with calls_between_files() as calls:
            await create(client, PODS, pod_json("a"))
            await until(is_bound)
    assert [step for step in walk.values() if step.from_step and not is_made(step, walk[step.from_step], calls)] == []
    assert (walk[1].file, "Reflector._pass_on") in {caller for caller, _ in calls}


def test_a_step_that_nothing_calls_is_found() -> None:
    called = Step("b.py", "B.go", False, 1)
    before = Step("a.py", "A.go", False, 0)
    assert is_made(called, before, {(("a.py", "A._inner"), ("b.py", "B.go"))})
    assert not is_made(called, before, {(("a.py", "A._inner"), ("c.py", "C.go")), (("c.py", "C.go"), ("b.py", "B.go"))})
