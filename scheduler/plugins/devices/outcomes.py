"""What each node says to a pod's claims, searched once for nodes whose devices look alike."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scheduler.cluster.devices.answers import UNKNOWN, NodeAnswers
from scheduler.cluster.devices.facts import Devices
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.cluster.view import View
from scheduler.framework.plugin import Rows
from scheduler.messages.status import Refusal
from scheduler.objects.kinds import Kind
from scheduler.objects.steps import Pace, Steps
from scheduler.plugins.devices.holders import NOTHING_HELD
from scheduler.plugins.devices.one_node import (
    FITS,
    NOTHING_RECORDED,
    Asked,
    Held,
    Outcome,
    Way,
    asked_for,
    find,
    outcome_of,
    resources_by_devices,
    timed_out,
)
from scheduler.plugins.devices.search import no_solution
from scheduler.plugins.devices.shortage import falls_short
from scheduler.plugins.devices.situation import Situation

ROWS_A_STEP = 64
"""Nodes whose looks are worked out before a search may pause."""
STEPS_A_ROW = 4
"""Steps of a slice that the look of a node counts: 50 to 200 µs where nothing is known of it."""

FEW_ROWS = 16
"""Rows changed since the last pod of the shape that are sorted one by one: numpy's sort costs as much as this
number."""

Numbered = tuple[npt.NDArray[np.int32], list[Outcome]]
"""By row asked the place of its outcome in the list."""


def outcomes(situation: Situation, pod: PodInfo, view: View, rows: Rows, max_steps: int, pace: Pace) -> Steps[Numbered]:
    """The outcome for each of these rows. While it pauses, others may ask, but nothing that is read here may change.
    The numbers hold until the next question."""
    view.devices.catch_up()
    with view.devices.answers.question() as is_only_one:
        if is_only_one:
            view.devices.looks.forget_if_crowded()
        answers = _answers_to(situation, view, max_steps, may_forget=is_only_one)
        return (yield from _with_answers(situation, pod, view, rows, answers, max_steps, pace))


def _answers_to(situation: Situation, view: View, max_steps: int, *, may_forget: bool) -> NodeAnswers:
    answers = view.devices.answers.of((situation.shape, max_steps))
    stamp = _stamp(view)
    if answers.stamp != stamp or (may_forget and answers.is_crowded(view.table.size)):
        answers.reset(stamp)
    return answers


def _with_answers(
    situation: Situation, pod: PodInfo, view: View, rows: Rows, answers: NodeAnswers, max_steps: int, pace: Pace
) -> Steps[Numbered]:
    """Search for what is not among these answers, or no longer right there."""
    devices, table = view.devices, view.table
    if not devices.is_of(table):
        listed = np.arange(table.size)[rows]
        return (yield from _one_by_one(situation, pod, view, listed, answers, max_steps, pace))
    answers.grow(table.size)
    versions = devices.row_versions()
    stale = np.flatnonzero(answers.versions[rows] != versions[rows])
    if not isinstance(rows, slice):
        stale = rows[stale]
    if table.node_count != table.size:
        stale = stale[table.exists[stale]]
    late = answers.late_row(versions) if len(stale) else None
    if late is not None:
        answers.codes[stale] = answers.number(timed_out(table.names[late], is_searched=False))
    elif len(stale):
        searched = yield from _answer(situation, pod, view, stale, answers, max_steps, pace)
        answers.versions[searched] = versions[searched]
    if not answers.outcomes:
        answers.number(FITS)
    return answers.codes[rows], answers.outcomes


def _stamp(view: View) -> tuple[int, int, int]:
    """The stamp of what all rows' answers depend on."""
    devices = view.devices
    return devices.common_version, view.version(Kind.DEVICE_CLASS), devices.looks.version


def _answer(
    situation: Situation,
    pod: PodInfo,
    view: View,
    rows: npt.NDArray[np.int64],
    answers: NodeAnswers,
    max_steps: int,
    pace: Pace,
) -> Steps[npt.NDArray[np.int64]]:
    """Put the codes of these rows' outcomes into ``answers``: one search for all rows whose devices look alike, and
    none after one that has run out of time. Returns the rows that were searched."""
    kinds, ways = _ways(situation, view.table, rows)
    signatures = yield from _signatures(view.devices, rows, pace)
    looks = signatures * len(ways) + kinds
    asking = _Asking(situation, pod, view, answers, max_steps, pace)
    if len(rows) <= FEW_ROWS:
        first, places = rows, np.arange(len(rows))
        distinct = looks
    else:
        distinct, indices, places = np.unique(looks, return_index=True, return_inverse=True)
        first = rows[indices]
    codes = np.zeros(len(distinct), np.int32)
    for place, (look, row) in enumerate(zip(distinct.tolist(), first.tolist(), strict=True)):
        signature, kind = divmod(look, len(ways))
        code = answers.of_signature.get((signature, ways[kind]))
        if code is None:
            code = yield from asking.code_of(signature, row, ways[kind])
        codes[place] = code
        if answers.outcomes[code].is_out_of_time:
            answers.late[row] = int(view.devices.row_versions()[row])
            codes[place + 1 :] = answers.number(timed_out(view.table.names[row], is_searched=False))
            answers.codes[rows] = codes[places]
            return rows[places <= place]
    answers.codes[rows] = codes[places]
    return rows


def _signatures(devices: Devices, rows: npt.NDArray[np.int64], pace: Pace) -> Steps[npt.NDArray[np.int64]]:
    if len(rows) <= ROWS_A_STEP:
        return devices.signatures(rows)
    found = []
    for part in devices.signatures_in_parts(rows, ROWS_A_STEP):
        found.append(part)
        pace.left -= STEPS_A_ROW * len(part)
        if pace.left <= 0:
            yield from pace.pause()
    return np.concatenate(found)


class _Asking:
    """What the searches of one question share."""

    __slots__ = ("_answers", "_max_steps", "_pace", "_pod", "_round", "_situation", "_view")

    def __init__(
        self, situation: Situation, pod: PodInfo, view: View, answers: NodeAnswers, max_steps: int, pace: Pace
    ) -> None:
        self._situation = situation
        self._pod = pod
        self._view = view
        self._answers = answers
        self._max_steps = max_steps
        self._pace = pace
        self._round = _Round(view.devices)

    def code_of(self, signature: int, row: int, by_devices: Way) -> Steps[int]:
        """The code of the outcome for nodes of this look; the row is one of them."""
        answers, view = self._answers, self._view
        code = yield from self._bare_code_of(view.devices.looks.bare(signature), row, by_devices)
        if code == UNKNOWN:
            outcome = yield from self.outcome(view.table, row, row, by_devices)
            code = answers.number(outcome)
        answers.of_signature[signature, by_devices] = code
        return code

    def _bare_code_of(self, bare: int, row: int, by_devices: Way) -> Steps[int]:
        """The code for a node that lacks devices of the kind that is asked for, whichever of them are free; UNKNOWN for
        another node."""
        answers, view = self._answers, self._view
        code = answers.of_bare.get((bare, by_devices))
        if code is None:
            asked = self._round.asked_for(self._situation, self._pod, view, by_devices)
            pools, code = view.devices.pools(row), UNKNOWN
            if isinstance(asked, Asked) and (yield from falls_short(asked.claims, pools, NOTHING_HELD, self._pace)):
                code = answers.number(outcome_of(no_solution(pools)))
            answers.of_bare[bare, by_devices] = code
        return code

    def outcome(self, table: NodeTable, row: int, own_row: int, by_devices: Way) -> Steps[Outcome]:
        """The search on the node of a row of the table, which is ``own_row`` in the cluster."""
        if isinstance(by_devices, Refusal):
            return Outcome(by_devices)
        asked = self._round.asked_for(self._situation, self._pod, self._view, by_devices)
        if asked is None:
            return NOTHING_RECORDED
        found = outcome_of((yield from find(asked, self._view, own_row, self._max_steps, self._pace, self._round.held)))
        return timed_out(table.names[row]) if found.is_out_of_time else found


class _Round:
    """What is asked for, and what is held, for all searches of one question."""

    __slots__ = ("_asked", "held")

    def __init__(self, devices: Devices) -> None:
        self._asked: dict[tuple[str, ...], Asked | str] = {}
        self.held = Held(devices)

    def asked_for(self, situation: Situation, pod: PodInfo, view: View, by_devices: Way) -> Asked | str | None:
        """What is asked for where these resources are given by devices; None where devices have no say."""
        if by_devices is None or isinstance(by_devices, Refusal):
            return None
        found = self._asked.get(by_devices)
        if found is None:
            found = self._asked[by_devices] = asked_for(situation, pod, view, by_devices)
        return found


def _ways(
    situation: Situation, table: NodeTable, rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], list[Way]]:
    """``resources_by_devices`` of these rows, as places in the list of different answers."""
    extended = situation.extended
    kinds = np.zeros(len(rows), np.int64)
    if extended is None:
        return kinds, [()]
    # Most clusters have a resource on all of their nodes or on none, and then one row answers for all.
    is_absent = [table.allocatable(name)[rows] == 0 for name in extended.names]
    if all(
        bool(absent.all()) if extended.class_of(name) is not None else not absent.any()
        for name, absent in zip(extended.names, is_absent, strict=True)
    ):
        return kinds, [resources_by_devices(situation, table, int(rows[0]))]
    ways: dict[Way, int] = {}
    for place, row in enumerate(rows.tolist()):
        kinds[place] = ways.setdefault(resources_by_devices(situation, table, row), len(ways))
    return kinds, list(ways)


def _one_by_one(
    situation: Situation,
    pod: PodInfo,
    view: View,
    listed: npt.NDArray[np.int64],
    answers: NodeAnswers,
    max_steps: int,
    pace: Pace,
) -> Steps[Numbered]:
    """Where the table is a private one: its rows are found in the cluster by their names. Pods make no difference, so
    what the cluster's row has said holds, where the node is the same."""
    found: list[Outcome] = []
    devices, table = view.devices, view.table
    asking = _Asking(situation, pod, view, answers, max_steps, pace)
    versions = devices.row_versions()
    late_row = answers.late_row(versions)
    late = None if late_row is None else timed_out(devices.name_of(late_row), is_searched=False)
    for row in listed.tolist():
        own_row = devices.row_of(table.names[row])
        if own_row is None or table.nodes[row] is None:
            found.append(FITS)
            continue
        if late is not None:
            found.append(late)
            continue
        is_known = own_row < len(answers.versions) and answers.versions[own_row] == versions[own_row]
        if is_known and devices.node_of(own_row) is table.nodes[row]:
            found.append(answers.outcomes[answers.codes[own_row]])
            continue
        by_devices = resources_by_devices(situation, table, row)
        outcome = yield from asking.outcome(table, row, own_row, by_devices)
        if outcome.is_out_of_time:
            late = timed_out(table.names[row], is_searched=False)
            answers.late[own_row] = int(versions[own_row])
        found.append(outcome)
    return np.arange(len(found), dtype=np.int32), found
