"""The number of attempts of each pending pod, from the scheduler's page ``/debug/queue``."""

from __future__ import annotations

import json
from typing import Any

from e2e.room import Room
from e2e.subject import Scheduler
from e2e.tandem import Tandem

_BUSY = ("active", "backoff", "error backoff", "in flight")


def attempts(scheduler: Scheduler, room: Room, *left_out: str) -> dict[str, int]:
    """Pod name -> attempts of the room's waiting pods, once none of them is about to be tried.

    For a scheduler without the page the answer is empty. Raises `ProcessFailure` when pods are still
    on their way after 20 s.
    """
    if not isinstance(scheduler, Tandem):
        return {}
    pages: list[dict[str, Any]] = []

    def is_quiet() -> bool:
        pages[:] = [page for page in _waiting(scheduler) if page["pod"].startswith(f"{room.name}/")]
        return not any(page["place"] in _BUSY for page in pages)

    scheduler.process.wait_until(is_quiet, 20)
    assert pages, f"no pod of {room.name} waits: there is nothing to compare"
    names = {page["pod"].partition("/")[2]: page["attempts"] for page in pages}
    return {name: count for name, count in names.items() if name not in left_out}


def wait_attempt(scheduler: Scheduler, room: Room, pod: str, number: int) -> None:
    """Wait until a pending pod has had ``number`` attempts; returns at once for a scheduler without the page."""
    if isinstance(scheduler, Tandem):
        scheduler.process.wait_until(lambda: attempts(scheduler, room)[pod] >= number, 30)


def _waiting(scheduler: Tandem) -> list[dict[str, Any]]:
    status, body = scheduler.get("/debug/queue")
    assert status == 200, f"/debug/queue answered {status}"
    pages: list[dict[str, Any]] = json.loads(body)["pods"]
    return pages
