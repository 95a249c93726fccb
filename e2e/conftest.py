"""One real cluster for the session; for each test a room of its own and the scheduler under test.

`E2E_SUBJECT=kube-scheduler` puts the peer in the subject's place: promises that it breaks are not fair ones.
`E2E_RECORDED=1` records every Tandem; each recording must replay identically when its test is over.
"""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e import provider
from e2e.builders import SCHEDULER
from e2e.client import Client
from e2e.controlplane.cluster import WATCHED_USER
from e2e.fixtures import rooms
from e2e.identities import REFERENCE_RULES, Identities, shipped_rules
from e2e.peer import KubeScheduler
from e2e.provider import Cluster
from e2e.subject import Scheduler
from e2e.tandem import Tandem, replays

_folders = itertools.count(1)
SUBJECT = os.environ.get("E2E_SUBJECT", "tandem")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with ExitStack() as stack:
        try:
            yield stack.enter_context(provider.cluster())
        except provider.NoCluster as missing:
            pytest.exit(f"no cluster for the end-to-end tests: {missing}", returncode=1)


@pytest.fixture(scope="session")
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(cluster.kubeconfig) as client:
        yield client


@pytest.fixture(scope="session")
def identities(client: Client, cluster: Cluster) -> Identities:
    return Identities(client, cluster.kubeconfig, cluster.folder)


room = rooms("room")


@pytest.fixture
def subject(cluster: Cluster, identities: Identities) -> Iterator[Scheduler]:
    """The scheduler under test, not started, with exactly the rights that the manifests grant."""
    folder = cluster.folder / f"subject-{next(_folders)}"
    folder.mkdir()
    scheduler: Scheduler
    if SUBJECT == "kube-scheduler":
        kubeconfig = identities.kubeconfig("peer", REFERENCE_RULES)
        scheduler = KubeScheduler(kubeconfig, folder, SCHEDULER, programs=cluster.programs)
    else:
        scheduler = Tandem(identities.kubeconfig("tandem", shipped_rules()), folder)
    yield scheduler
    scheduler.kill()


@pytest.fixture
def scheduler(subject: Scheduler) -> Iterator[Scheduler]:
    """The scheduler under test, started and ready."""
    with subject:
        yield subject


@pytest.fixture
def peer(cluster: Cluster) -> Iterator[KubeScheduler]:
    """kube-scheduler beside the subject, for pods that name no scheduler."""
    folder = cluster.folder / f"peer-{next(_folders)}"
    folder.mkdir()
    with KubeScheduler(cluster.kubeconfig, folder, programs=cluster.programs) as peer:
        yield peer


@pytest.fixture
def new_tandem(cluster: Cluster, identities: Identities) -> Callable[..., Tandem]:
    """Makes a Tandem (not started) with options of the test's own; its folder is new each time."""

    def make(**options: object) -> Tandem:
        folder = cluster.folder / f"tandem-{next(_folders)}"
        folder.mkdir()
        kubeconfig = options.pop("kubeconfig", None) or identities.kubeconfig("tandem", shipped_rules())
        return Tandem(kubeconfig, folder, **options)  # type: ignore[arg-type]

    return make


@pytest.fixture(autouse=True)
def _say_why_the_subject_is_another(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("tandem_only") and SUBJECT != "tandem":
        pytest.skip("a promise of Tandem alone")


@pytest.fixture(autouse=True)
def _nothing_is_forbidden(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test makes the subject do, the rights in the manifests are enough for it."""
    if "cluster" not in request.fixturenames or request.getfixturevalue("cluster").controlplane is None:
        yield
        return
    controlplane = request.getfixturevalue("cluster").controlplane
    begin, starts = controlplane.audit_size(), controlplane.apiserver_starts
    yield
    if controlplane.apiserver_starts != starts:
        # An API server that has just started answers 403 until it has read its roles.
        return
    refused = controlplane.forbidden(WATCHED_USER, begin)
    assert not {(entry["verb"], entry["requestURI"].partition("?")[0]) for entry in refused}


@pytest.fixture(autouse=True)
def _recordings_replay_identically() -> Iterator[None]:
    """Set up before the schedulers, and so torn down after them. Without E2E_RECORDED there is nothing to replay."""
    yield
    while replays:
        folder, command = replays.popitem()
        if not Path(folder).exists():
            continue  # a scheduler that refused to start
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, f"{folder}: exit code {done.returncode}\n{done.stdout}{done.stderr}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="only the tests that take many minutes, else never run")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    is_long = config.getoption("--long")
    left_out = [item for item in items if (item.get_closest_marker("long") is not None) != is_long]
    items[:] = [item for item in items if item not in set(left_out)]
    config.hook.pytest_deselected(items=left_out)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: takes many minutes, so it runs with --long only")
    config.addinivalue_line("markers", "tandem_only: a promise that kube-scheduler does not make")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Show the end of the scheduler's log for a failed test."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.when == "call" and report.failed:
        for name in ("scheduler", "subject"):
            one = getattr(item, "funcargs", {}).get(name)
            if isinstance(one, Scheduler) and hasattr(one, "process"):
                report.sections.append((f"{one.kind}", one.process.tail()))
                break
