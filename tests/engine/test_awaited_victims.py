"""Which waiting pods the end of a victim concerns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.cluster.nominator import Nominator
from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.making_room.awaited_victims import ConcernedByVictim
from scheduler.testing.objects import pod


class Record:
    def __init__(self, info: PodInfo) -> None:
        self.uid = info.uid


@pytest.mark.parametrize("is_waiting", [True, False])
@pytest.mark.parametrize("needs_all", [True, False])
@pytest.mark.parametrize("nominated", ["", "n", "m"])
def test_a_group_of_one_is_passed_over_just_where_its_pod_is_not_concerned(
    is_waiting: bool, needs_all: bool, nominated: str
) -> None:
    nominator = Nominator(None)
    info = PodInfo(pod("high"))
    if nominated:
        nominator.nominate(info, nominated)
    members: Mapping[str, Any] = {info.uid: Record(info)}
    waiting = {info.uid} if is_waiting else set()
    concerned = ConcernedByVictim(waiting, waiting if needs_all else set(), nominator, "n")
    assert concerned.may_concern(members) == bool(list(concerned.among(members)))
    assert concerned.may_concern(members) == (not is_waiting or (nominated in ("", "n") and not needs_all))
