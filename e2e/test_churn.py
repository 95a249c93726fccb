"""Promise: through minutes of churn beside kube-scheduler every pod ends where the rules allow, and memory is flat.

`E2E_CHURN_SECONDS` makes it shorter, `E2E_CHURN_SEED` another one.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable

import pytest

from e2e import builders
from e2e.builders import SCHEDULER
from e2e.churn import GUARDED, LAG_SECONDS, PEER, STRICT, Churn, Judge, taken
from e2e.client import Client
from e2e.peer import KubeScheduler
from e2e.room import Room, placements
from e2e.tandem import Tandem, profile

SECONDS = float(os.environ.get("E2E_CHURN_SECONDS", "600"))
SEED = int(os.environ.get("E2E_CHURN_SEED", "1"))
STEP_SECONDS = 0.5
MEBIBYTE = 1 << 20


@pytest.mark.long
@pytest.mark.tandem_only
def test_through_ten_minutes_of_churn_every_pod_ends_where_the_rules_allow_and_memory_stays_flat(
    room: Room, new_tandem: Callable[..., Tandem], peer: KubeScheduler, client: Client
) -> None:
    room.add_cluster_object(builders.priority_class(room.name, 1000))
    tandem = new_tandem(config=[profile(SCHEDULER), STRICT], journal=False)
    churn, judge = Churn(room, client, room.name, SEED), Judge()
    with tandem, client.watch("Node") as nodes:
        churn.begin()
        sizes: list[int] = []
        end = time.monotonic() + SECONDS
        while (now := time.monotonic()) < end:
            churn.step()
            judge.see(taken(nodes, room.pods, now - LAG_SECONDS))
            assert not judge.faults, f"seed {SEED}: {judge.faults}"
            sizes.append(tandem.usage().rss_bytes)
            room.events.take_history()
            time.sleep(max(0.0, now + STEP_SECONDS - time.monotonic()))
        churn.calm()
        room.pods.wait_until(lambda state: len(placements(state)) == len(state), 90, "a node for every pod")
        judge.see(taken(nodes, room.pods, time.monotonic()))
        assert not judge.faults, f"seed {SEED}: {judge.faults}"
        guarded = [pod for pod in room.pods.state.values() if pod["metadata"]["name"].startswith("guarded")]
        assert len(guarded) == GUARDED and len(placements(room.pods.state)) > GUARDED
        assert not room.pods.gaps and not nodes.gaps
        assert min(judge.placed[SCHEDULER], judge.placed[PEER]) > SECONDS
        early, late = (statistics.median(part) for part in (sizes[len(sizes) // 3 :][:20], sizes[-20:]))
        assert late - early < 12 * MEBIBYTE, f"grew from {early / MEBIBYTE:.0f} to {late / MEBIBYTE:.0f} MiB"
        assert "Traceback" not in tandem.log()
        page = tandem.get("/metrics")[1]
        print(f"placed {judge.placed}, memory {early / MEBIBYTE:.0f} to {late / MEBIBYTE:.0f} MiB")
        assert "tandem_loop_errors_total 0.0" in page
        repairs = [line for line in page.splitlines() if line.startswith("tandem_cache_repairs_total{")]
        assert repairs and all(line.endswith(" 0.0") for line in repairs)
