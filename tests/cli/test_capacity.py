"""``tandem capacity``: what its tables say of a page."""

from __future__ import annotations

import io

from rich.console import Console

from scheduler.cli.capacity import print_capacity


def test_a_bound_of_none_is_none() -> None:
    fits = [
        {"shape": name, "count": count, "nodes": 1, "lost": 0, "limitedBy": {}, "closed": 0, "outsideOfScope": 0}
        for name, count in (("none", 0), ("few", 2))
    ]
    shapes = [
        {"name": name, "isUpperBound": True, "isWaiting": True, "pods": 1, "message": ""} for name in ("none", "few")
    ]

    def printed(of: slice) -> str:
        pool = {"name": "p", "nodes": 1, "cordoned": 0, "resources": {}, "fits": fits[of]}
        file = io.StringIO()
        page = {"poolLabels": [], "pools": [pool], "shapes": shapes, "poolsLeftOut": 0}
        print_capacity(page, Console(file=file, width=160))
        return file.getvalue()

    assert "≤" not in printed(slice(1))
    assert "≤ 2" in printed(slice(2)) and "≤ 0" not in printed(slice(2))
    assert "≤: its pods may refuse each other" in printed(slice(2))
