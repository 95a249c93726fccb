"""Promise: whatever the way to the API server does, nothing is lost, nothing is done twice, and the caches end right.

Churn beside kube-scheduler while a proxy spoils Tandem's requests and watches; kube-scheduler's own way is clean.
`E2E_FAULT_SECONDS` makes it shorter (60 and more), `E2E_FAULT_SEED` another one.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from e2e import builders, paths
from e2e.builders import SCHEDULER
from e2e.churn import GUARDED, LAG_SECONDS, PEER, STRICT, Churn, Judge, taken
from e2e.client import Client, NotInTime
from e2e.controlplane.cluster import WATCHED_USER
from e2e.controlplane.processes import ProcessFailure
from e2e.faults.plan import Fault
from e2e.faults.process import FaultProxy, Report
from e2e.identities import Identities, shipped_rules
from e2e.peer import KubeScheduler
from e2e.provider import Cluster
from e2e.room import Room, bindings, placements
from e2e.tandem import Tandem, profile

SECONDS = float(os.environ.get("E2E_FAULT_SECONDS", "600"))
SEED = int(os.environ.get("E2E_FAULT_SEED", "1"))
STEP_SECONDS = 0.5
PODS_WANTED = 420
MAX_SILENCE_SECONDS = min(100.0, SECONDS / 4)
"""Longer than the 90 s after which a watch is taken for dead, where there is time for it."""
CALM_SECONDS = 150.0
"""For every pod that fits to be bound once the faults are over: the longest wait between two tries is 60 s."""
ROUNDS = 3
"""Lists of each kind that are waited for at the end: a watch that begins again may be one, comparisons the others."""

NewTandem = Callable[..., Tandem]


@pytest.mark.long
@pytest.mark.tandem_only
def test_through_ten_minutes_of_faults_nothing_is_lost_or_doubled_and_the_caches_end_right(
    room: Room,
    new_tandem: NewTandem,
    peer: KubeScheduler,
    client: Client,
    cluster: Cluster,
    identities: Identities,
    tmp_path: Path,
) -> None:
    assert cluster.controlplane is not None, "what was sent is read from the audit log of a control plane of our own"
    since = cluster.controlplane.audit_size()
    room.add_cluster_object(builders.priority_class(room.name, 1000))
    judge = Judge(grace_seconds=MAX_SILENCE_SECONDS + 60)
    with FaultProxy(identities.kubeconfig("tandem", shipped_rules()), tmp_path, SEED, MAX_SILENCE_SECONDS) as proxy:
        tandem = new_tandem(
            config=[profile(SCHEDULER), STRICT],
            journal=False,
            kubeconfig=proxy.kubeconfig,
            options=["--cache-reconcile-period=10s"],
        )
        with tandem, client.watch("Node") as nodes:
            churn = Churn(room, client, room.name, SEED, PODS_WANTED)
            churn.begin()
            churn.fill()
            guarded = _guarded(room)
            first = tandem.process.pid
            proxy.turn(is_on=True)
            end = time.monotonic() + SECONDS
            while (now := time.monotonic()) < end:
                churn.step()
                judge.see(taken(nodes, room.pods, now - LAG_SECONDS))
                assert not judge.faults, f"seed {SEED}: {judge.faults}\n{_summary(proxy.report(), tandem)}"
                room.events.take_history()
                time.sleep(max(0.0, now + STEP_SECONDS - time.monotonic()))
            report = proxy.report()
            proxy.turn(is_on=False)
            print(f"seed {SEED}, {SECONDS:.0f} s, placed {judge.placed}\n{_summary(report, tandem)}")
            churn.calm()
            try:
                room.pods.wait_until(lambda state: len(placements(state)) == len(state), CALM_SECONDS)
            except NotInTime:
                raise AssertionError(f"seed {SEED}: pods without a node\n{tandem.get('/debug/queue')[1]}") from None
            judge.see(taken(nodes, room.pods, time.monotonic()))
            assert not judge.faults, f"seed {SEED}: {judge.faults}"
            assert not room.pods.gaps and not nodes.gaps
            _check_the_faults_were_there(report)
            assert _guarded(room) == guarded and len(guarded) == GUARDED, "a strict budget was broken"
            assert min(judge.placed[SCHEDULER], judge.placed[PEER]) > SECONDS / 2
            _check_writes(cluster.controlplane.audit_entries(since), report, room.name)
            _check_caches(tandem, proxy, client, report)
            assert tandem.process.alive and tandem.process.pid == first
            tandem.wait_ready()
            assert "Traceback" not in tandem.log()
            page = tandem.get("/metrics")[1]
            assert "tandem_loop_errors_total 0.0" in page
            assert sum(_values(page, "tandem_task_failures_total")) == 0


def _guarded(room: Room) -> set[str]:
    """UIDs of the pods that a strict budget guards and that are not ending."""
    return {
        pod["metadata"]["uid"]
        for pod in room.pods.state.values()
        if pod["metadata"]["name"].startswith("guarded") and "deletionTimestamp" not in pod["metadata"]
    }


def _check_the_faults_were_there(report: Report) -> None:
    missing = [fault.value for fault in Fault if not report.total(fault)]
    assert not missing, f"seed {SEED}: these faults never fired: {missing}"
    for kind in ("pods", "nodes", "pods/binding"):
        assert sum(report.fired.get(kind, {}).values()) > 2, f"seed {SEED}: hardly a fault of {kind}"


def _check_writes(audit: Iterable[dict[str, Any]], report: Report, namespace: str) -> None:
    """One binding a pod; again tried is only what a fault had hidden the outcome of; so it is with deletions."""
    ours = [entry for entry in audit if entry["user"]["username"] == WATCHED_USER and "objectRef" in entry]
    bound = bindings(ours, namespace)
    twice = [pod for (pod, status), times in bound.items() if status == 201 and times > 1]
    assert not twice, f"seed {SEED}: bound twice: {twice}"
    hidden = {path for request in report.writes for path in [request.partition(" ")[2]]}
    # A pod that is ending is refused with 409, too.
    refused = {pod for (pod, status) in bound if status == 409 and (pod, 201) in bound}
    unasked = sorted(pod for pod in refused if f"{paths.one('Pod', pod, namespace)}/binding" not in hidden)
    described = [_described(entry) for entry in ours if entry["objectRef"].get("name") in unasked]
    assert not unasked, f"seed {SEED}: bound pods were tried again without a fault:\n" + "\n".join(described)
    ends: Counter[str] = Counter()
    for entry in ours:
        asked = entry["objectRef"]
        is_end = entry["verb"] == "delete" or asked.get("subresource") == "eviction"
        if is_end and asked.get("namespace") == namespace and entry["responseStatus"]["code"] < 300:
            ends[entry["requestURI"].partition("?")[0]] += 1
    faults: Counter[str] = Counter()
    for request, times in report.writes.items():
        faults[request.partition(" ")[2]] += times
    again = {path: times for path, times in ends.items() if times > 1 + faults[path]}
    assert not again, f"seed {SEED}: victims were deleted twice: {again}"
    print(f"{sum(times for (_, status), times in bound.items() if status == 201)} bindings, {len(ends)} victims")


def _described(entry: dict[str, Any]) -> str:
    """A request in the audit log: when it came and was answered, what it was, and the status."""
    when = f"{entry['requestReceivedTimestamp']} to {entry['stageTimestamp']}"
    return f"{when} {entry['verb']} {entry['requestURI']} {entry['responseStatus']['code']}"


def _check_caches(tandem: Tandem, proxy: FaultProxy, client: Client, report: Report) -> None:
    """Without faults some comparisons with the API server's lists find no difference, nor did those before."""
    wanted = {kind for kind, times in report.lists.items() if times}
    assert {"pods", "nodes", "poddisruptionbudgets"} <= wanted

    def missing() -> dict[str, int]:
        lists = proxy.report().lists
        return {kind: times for kind in wanted if (times := lists.get(kind, 0)) < ROUNDS}

    with contextlib.suppress(ProcessFailure):
        tandem.process.wait_until(lambda: not missing(), 180)
    assert not missing(), f"seed {SEED}: not listed {ROUNDS} times: {missing()}\n{tandem.get('/readyz?verbose')[1]}"
    page = tandem.get("/metrics")[1]
    repairs = [line for line in page.splitlines() if line.startswith("tandem_cache_repairs_total{")]
    assert repairs and all(line.endswith(" 0.0") for line in repairs), f"seed {SEED}:\n{_repairs(tandem)}"
    pods = [pod for pod in client.list("Pod") if pod["status"].get("phase") not in ("Succeeded", "Failed")]
    sizes = {
        name: _values(page, f'scheduler_cache_size{{type="{name}"}}') for name in ("nodes", "pods", "assumed_pods")
    }
    bound = float(sum(bool(pod["spec"].get("nodeName")) for pod in pods))
    assert sizes == {"nodes": [float(len(client.list("Node")))], "pods": [bound], "assumed_pods": [0.0]}


def _repairs(tandem: Tandem) -> str:
    return "\n".join(line for line in tandem.log().splitlines() if "Cache differed" in line)


def _values(page: str, name: str) -> list[float]:
    """Of all lines of a metrics page that begin so."""
    return [float(line.rpartition(" ")[2]) for line in page.splitlines() if re.match(rf"{re.escape(name)}[ {{]", line)]


def _summary(report: Report, tandem: Tandem) -> str:
    totals = ", ".join(f"{fault.value} {report.total(fault)}" for fault in Fault)
    kept = ("tandem_bind_lookups", "tandem_relists_total", "tandem_cache_repairs", "tandem_failed_writes")
    metrics = [
        line for line in tandem.get("/metrics")[1].splitlines() if line.startswith(kept) and not line.endswith(" 0.0")
    ]
    return "\n".join(["faults: " + totals, *report.lines(), *metrics])
