"""Results of dry runs by row, cached for later pods of the same class.

A thousand preemptors of one Deployment are tried on the same thousand nodes, and between two of them hardly more than
one node changes. So a result is valid for pods of the same class and priority while its row has the same Node, the same
pods, and the same nominated pods.

- Where filters read of the pods only what they request, the pods' statuses may change, as victims' do: the victims of a
  candidate are then taken as they are now.
- Pods that differ in their claims share the results that their plugins declare equal (``likeness.py``).
- What a plugin that counts pods (spread, affinity) knows of the row must be the same, too (``kept_facts.py``). If the
  plugin does not say what it knows, its present answer is compared instead, and rows with a potential victim or a
  nominated pod that it counts are evaluated each time.
- Nothing is cached if the result depends on more: if there is a budget, or a plugin reads other objects of the cluster.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.pod_template import template_key
from scheduler.framework.asked_filters import AskedFilter
from scheduler.framework.likeness import NO_CLAIMS, Likeness, PartsOfRows, likeness_of
from scheduler.framework.plugin import EMPTY_STATE, FilterPlugin, State
from scheduler.framework.traits import traits_of
from scheduler.messages.status import Refusal, Skip
from scheduler.preemption.dry_run import Candidate, Trial
from scheduler.preemption.kept_facts import KeptFacts
from scheduler.preemption.wave_filters import WaveFilters, any_plugin_counts, wave_filters

Answer = Candidate | Refusal

UNKNOWN: Final = 0
CANDIDATE: Final = 1
"""Greater codes are refusals."""

_MAX_CLASSES = 16
_MAX_REFUSALS = 1024
"""Different refusals cached for one class; beyond that its cache is emptied."""

_MAX_COUNTING = 4
"""Plugins that count pods: their answers for a row are combined in one number."""

Mask = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int64]


class _Columns(Protocol):
    """The part of the pod columns that is used here."""

    @property
    def infos(self) -> list[list[PodInfo]]: ...

    @property
    def versions(self) -> Rows: ...

    @property
    def pods_versions(self) -> Rows: ...

    @property
    def amounts_versions(self) -> Rows: ...


class RowAnswers:
    """The cached results of one class, as numbers, so that an attempt reads all rows at once. ``shared``: what they all
    depend on, besides the class."""

    __slots__ = (
        "_beside",
        "_candidates",
        "_codes",
        "_facts",
        "_is_plain",
        "_likeness",
        "_nominations_of",
        "_nominations_version",
        "_numbers",
        "_own_rows",
        "_parts",
        "_pods_versions",
        "_refusals",
        "_said",
        "_saying",
        "_shared",
        "_since",
        "_stamps",
        "_versions",
        "silent",
    )

    def __init__(self, shared: tuple[object, ...], now: int, *, is_plain: bool) -> None:
        self._shared = shared
        self._is_plain = is_plain
        """Whether no filter counts pods: then the answers for a row depend on the amounts of its pods alone."""
        self._since = now
        self._codes = np.zeros(0, np.int32)
        """Row → UNKNOWN, CANDIDATE, or the number of a refusal."""
        self._versions = np.zeros(0, np.int64)
        """Row → its version in the columns that the answer is for."""
        self._pods_versions = np.zeros(0, np.int64)
        """Row → the version of its pods among which the victims are, where it has a candidate."""
        self._stamps = np.zeros(0, np.int64)
        """Row → the stamp of the likeness that the answer is for."""
        self._facts = KeptFacts()
        self.silent: tuple[AskedFilter, ...] = ()
        """The plugins that count pods and tell no facts."""
        self._said = np.zeros(0, np.int64)
        """Row → the silent plugins' answers for which the result holds, as a number."""
        self._saying: Rows | None = None
        """Row → the silent plugins' present answers; None: there is no such plugin."""
        self._likeness = NO_CLAIMS
        """The likeness of the present attempt."""
        self._parts = PartsOfRows()
        self._own_rows: set[int] = set()
        """Rows on which other pods' results do not hold for the present pod."""
        self._beside: dict[int, tuple[PodInfo, ...]] = {}
        """Row → the pods nominated to it that the answer is for, where there are any."""
        self._nominations_of: object = None
        """The identity of the log of nominations that ``_beside`` has been compared with: the engine's or a fork's."""
        self._nominations_version = 0
        """Position in that log up to which it has been."""
        self._candidates: dict[int, Candidate] = {}
        self._numbers: dict[Refusal, int] = {}
        self._refusals: list[Refusal] = []
        """By number, from ``CANDIDATE + 1`` on."""

    def hold(self, shared: tuple[object, ...], now: int) -> bool:
        """Whether the results are still valid; if a clock went back, pods without a start may be in another order."""
        before, self._since = self._since, now
        return now >= before and len(shared) == len(self._shared) and all(map(_is, shared, self._shared))

    def begin(self, trial: Trial, likeness: Likeness, counting: Sequence[AskedFilter]) -> None:
        """Begin an attempt: drop the results of rows whose nominations have changed since the last one."""
        self._likeness = likeness
        self._own_rows = self._parts.rows_of_its_own(likeness)
        table = trial.view.table
        own_row = table.existing_row(trial.pod.pod.nominated_node_name)
        if own_row is not None:
            # On the node that it is nominated to, the pod is not one of the nominated pods that it must leave room for.
            self._own_rows.add(own_row)
        if (more := table.size - len(self._codes)) > 0:
            self._codes = np.append(self._codes, np.zeros(more, np.int32))
            self._versions = np.append(self._versions, np.zeros(more, np.int64))
            self._pods_versions = np.append(self._pods_versions, np.zeros(more, np.int64))
            self._stamps = np.append(self._stamps, np.zeros(more, np.int64))
            self._said = np.append(self._said, np.zeros(more, np.int64))
        self.silent, holds_on = self._facts.begin(counting, trial.view)
        if not holds_on:
            self._codes[:] = UNKNOWN
        self._saying = self._verdicts_of(trial, self.silent) if self.silent else None
        log, nominated, beside = trial.context.nominations, trial.context.nominated_pods, self._beside
        moved = None
        if log is not None:
            if self._nominations_of is log.identity:
                moved = log.nodes_changed_since(self._nominations_version)
            self._nominations_of, self._nominations_version = log.identity, log.version
        if moved is None:
            changed: Iterable[int] = range(table.size)
        else:
            changed = [row for name in moved if (row := table.row(name)) is not None]
        names, codes = table.names, self._codes
        if self.silent:
            self._own_rows.update(row for row, pods in beside.items() if _is_any_counted(self.silent, pods))
        for row in changed:
            if codes[row] != UNKNOWN and tuple(nominated(names[row])) != beside.get(row, ()):
                codes[row] = UNKNOWN

    def _verdicts_of(self, trial: Trial, counting: Sequence[AskedFilter]) -> Rows:
        """By row, a number for the answers of these plugins, equal for equal refusals."""
        view = trial.view
        numbers = np.zeros(view.table.size, np.int64)
        for one in counting:
            verdicts = one.plugin.filter(one.state, trial.pod, view, view.rows)
            numbers *= _MAX_REFUSALS
            if verdicts is not None:
                of_refusals = [self._number_of(refusal.by(one.plugin.name)) for refusal in verdicts.refusals]
                numbers += np.array([0, *of_refusals])[verdicts.codes]
        return numbers

    def _number_of(self, refusal: Refusal) -> int:
        number = self._numbers.get(refusal)
        if number is None:
            self._refusals.append(refusal)
            number = self._numbers[refusal] = len(self._refusals) + CANDIDATE
        return number

    def known(self, rows: Rows, columns: _Columns, counted: Mask | None) -> Codes:
        """The cached result of each of these rows, as a code. The rows are up to date in ``columns``.
        ``counted``: of these rows, those with a potential victim that one of ``silent`` counts; None = none."""
        is_same = self._versions[rows] == self._versions_in(columns)[rows]
        if (facts_are_same := self._facts.are_as_kept(rows)) is not None:
            is_same &= facts_are_same
        if self._likeness.stamps is not None:
            is_same &= self._stamps[rows] == self._likeness.stamps[rows]
        if self._saying is not None:
            is_same &= self._said[rows] == self._saying[rows]
        if counted is not None:
            is_same &= ~counted
        if self._own_rows:
            is_same &= ~np.isin(rows, list(self._own_rows))
        return np.where(is_same, self._codes[rows], UNKNOWN)

    def _versions_in(self, columns: _Columns) -> Rows:
        return columns.amounts_versions if self._is_plain else columns.versions

    def keep(self, trial: Trial, answers: Mapping[int, Answer], columns: _Columns) -> list[int]:
        """Cache these answers; returns the code of each, UNKNOWN where it does not hold for other pods."""
        names, nominated = trial.view.table.names, trial.context.nominated_pods
        likeness, silent, own_rows, put_parts = self._likeness, self.silent, self._own_rows, self._parts.put
        codes: list[int] = []
        last: tuple[Answer | None, int] = None, UNKNOWN
        for row, answer in answers.items():
            if row in own_rows:
                codes.append(UNKNOWN)
                continue
            beside = tuple(nominated(names[row]))
            if put_parts(row, beside, likeness) or (silent and _is_any_counted(silent, beside)):
                self._codes[row] = UNKNOWN
                codes.append(UNKNOWN)
                continue
            if beside:
                self._beside[row] = beside
            else:
                self._beside.pop(row, None)
            if isinstance(answer, Candidate):
                self._candidates[row] = answer
                codes.append(CANDIDATE)
                continue
            self._candidates.pop(row, None)
            if answer is not last[0]:
                last = answer, self._number_of(answer)
            codes.append(last[1])
        written = np.array(codes, np.int32)
        self._write(np.array(list(answers), np.int64)[written != UNKNOWN], written[written != UNKNOWN], columns)
        return codes

    def _write(self, rows: Rows, codes: Codes, columns: _Columns) -> None:
        """Store these codes, with what they hold for."""
        self._codes[rows] = codes
        self._facts.keep(rows)
        self._versions[rows] = self._versions_in(columns)[rows]
        if self._saying is not None:
            self._said[rows] = self._saying[rows]
        if self._likeness.stamps is not None:
            self._stamps[rows] = self._likeness.stamps[rows]
        found = rows[codes == CANDIDATE]
        self._pods_versions[found] = columns.pods_versions[found]

    def candidates(self, rows: Rows, columns: _Columns) -> list[Candidate]:
        """The candidates of rows that are known to have one, with the victims as they are now."""
        for row in rows[self._pods_versions[rows] != columns.pods_versions[rows]].tolist():
            known = self._candidates[row]
            there = {info.uid: info for info in columns.infos[row]}
            victims = tuple([there[info.uid] for info in known.victims])
            self._candidates[row] = Candidate(row, known.node_name, victims, known.cost)
            self._pods_versions[row] = columns.pods_versions[row]
        return list(map(self._candidates.__getitem__, rows.tolist()))

    def refusal(self, code: int) -> Refusal:
        return self._refusals[code - CANDIDATE - 1]

    @property
    def is_full(self) -> bool:
        """Whether it has more different refusals than are cached, and must be made again."""
        return len(self._refusals) > _MAX_REFUSALS

    def answer(self, row: int, code: int, columns: _Columns) -> Answer | None:
        if code == UNKNOWN:
            return None
        return self.candidates(np.array([row]), columns)[0] if code == CANDIDATE else self.refusal(code)


class _FiltersOfClass(Struct, frozen=True):
    """The filters that a class of pods is tried with; ``source`` is what they were sorted from."""

    source: tuple[Sequence[FilterPlugin], Mapping[str, State | Skip]]
    filters: WaveFilters | None
    alike: tuple[State, ...] = ()
    """The states of the filters whose answers their likeness describes."""
    parts: tuple[object, ...] = ()
    """The plugins, and the states of those that look at nothing but the row and their state."""


def _sorted_out(trial: Trial) -> _FiltersOfClass:
    filters, source = wave_filters(trial), (trial.filters, trial.states)
    if filters is None:
        return _FiltersOfClass(source, None)
    alone = [_looks_at_the_row_alone(one) for one in filters.asked]
    of_row = tuple([one.state for one, is_alone in zip(filters.asked, alone, strict=True) if is_alone])
    others = [one for one, is_alone in zip(filters.asked, alone, strict=True) if not is_alone]
    alike = tuple([one.state for one in others if one not in filters.counting])
    return _FiltersOfClass(source, filters, alike, (*(one.plugin for one in filters.asked), *of_row))


class KeptAnswers:
    """The cached results of the classes asked for last."""

    def __init__(self) -> None:
        self._classes: OrderedDict[Hashable, RowAnswers] = OrderedDict()
        self._filters: dict[int, _FiltersOfClass] = {}
        """By the identity of a class's states, which live as long as their entry."""

    def _filters_of(self, trial: Trial) -> _FiltersOfClass:
        known = self._filters.get(id(trial.states))
        if known is not None and known.source[0] is trial.filters and known.source[1] is trial.states:
            return known
        if len(self._filters) >= _MAX_CLASSES:
            self._filters.clear()
        known = self._filters[id(trial.states)] = _sorted_out(trial)
        return known

    def filters(self, trial: Trial) -> WaveFilters | None:
        """``wave_filters`` of the trial, sorted out once for a class of pods."""
        return self._filters_of(trial).filters

    def of(self, trial: Trial, filters: WaveFilters) -> RowAnswers | None:
        """What is known of the rows for this pod, whose ``filters`` these are. None where nothing can be kept."""
        if trial.budgets.all:
            return None
        counting = filters.counting
        if filters.doubly_changing or len(counting) > _MAX_COUNTING:
            return None
        of_class = self._filters_of(trial)
        likeness = likeness_of(of_class.alike, trial.view)
        key = _class_of(trial)
        if likeness is None or key is None:
            return None
        policy = trial.policy
        others_name_victims = trial.context.may_others_name_victims
        shared = (policy.pdb_policy, policy.victim_schedulers, others_name_victims, *of_class.parts)
        key = key, trial.pod.priority, likeness.key
        answers = self._classes.get(key)
        if answers is None or not answers.hold(shared, trial.now) or answers.is_full:
            answers = self._classes[key] = RowAnswers(shared, trial.now, is_plain=filters.are_plain)
        self._classes.move_to_end(key)
        if len(self._classes) > _MAX_CLASSES:
            self._classes.popitem(last=False)
        answers.begin(trial, likeness, counting)
        return answers


def _class_of(trial: Trial) -> Hashable | None:
    """The key of the pod's class or, where that is not known, of its template, which says as much."""
    known = trial.context.class_key
    return template_key(trial.pod) if known is None else known


def _looks_at_the_row_alone(one: AskedFilter) -> bool:
    """Whether the filter looks at the row and its state alone. What else it reads is in its state, and another state is
    another object; but not EMPTY_STATE, which it has where no PreFilter of its own is asked."""
    traits = traits_of(one.plugin)
    is_shared = traits.is_declared and (one.state is not EMPTY_STATE or not traits.has_stamp)
    return is_shared and not one.counts_pods


def _is_any_counted(counting: Sequence[AskedFilter], pods: Iterable[PodInfo]) -> bool:
    return any(any_plugin_counts(counting, info) for info in pods)


def _is(one: object, other: object) -> bool:
    return one is other
