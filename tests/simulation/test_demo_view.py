"""The demo's sentences about answers."""

from __future__ import annotations

from typing import Any

from scheduler.simulate.demo_view import drain_in_words


def left(name: str, why: str, *, stays: bool = False) -> dict[str, Any]:
    return {"pod": f"default/{name}", "node": "n1", "stays": stays, "why": why}


def test_the_pods_of_a_drained_node_are_all_counted_and_each_is_in_what_becomes_of_it() -> None:
    answer = {
        "pending": 1,
        "placements": [
            {"pod": "default/web-1", "origin": "evicted", "node": "n2"},
            {"pod": "default/web-2", "origin": "evicted"},
            {"pod": "default/other", "origin": "waiting", "node": "n2"},
        ],
        "left": [
            left("huge", "has no controller that would create it again"),
            left("agent", "belongs to a DaemonSet", stays=True),
            left("old", "is being deleted"),
            left("bare", "has no controller that would create it again"),
        ],
    }
    assert drain_in_words(answer) == (
        "1 of its 6 pods would move (web-1 to n2); "
        "would end for good, since no controller makes them again: huge, bare; "
        "would stay: agent; are being deleted anyway: old; no budget is in the way. 1 pod would wait."
    )


def test_a_node_whose_pods_all_end_has_them_in_its_count() -> None:
    gone = [left(name, "has no controller that would create it again") for name in ("a", "b", "c")]
    text = drain_in_words({"pending": 0, "left": gone})
    assert text.startswith("0 of its 3 pods would move; would end for good")
