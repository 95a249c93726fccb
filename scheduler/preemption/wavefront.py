"""The search for candidates: rows are tried in waves (``wave_answers.py``) until there are enough of them.

Results are cached by row for the next pod of the same template (``kept_answers.py``). Where many rows or pods are new,
the search pauses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from scheduler.errors import message_of
from scheduler.messages.status import Code, Refusal
from scheduler.objects.steps import Steps
from scheduler.preemption.dry_run import Candidate, Trial, dry_run_node
from scheduler.preemption.kept_answers import CANDIDATE, UNKNOWN, Codes, RowAnswers
from scheduler.preemption.pod_columns import PodColumns
from scheduler.preemption.refused_rows import RefusedRows
from scheduler.preemption.wave_answers import rows_counted, wave_answers
from scheduler.preemption.wave_filters import WaveFilters
from scheduler.preemption.what_if_table import Inexact

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]
Answer = Candidate | Refusal

_SMALLEST_WAVE = 64
ROWS_A_STEP = 1_024
"""Rows that are looked at between two pauses."""
ROWS_TRIED_A_STEP = 256
"""Rows whose answer is not known that are tried between two pauses: 4 to 6 µs each; where a plugin counts pods that are
nominated there, too, 44 to 66 in an hour in which the machine was three times slower (docs/measurements.md)."""
ROWS_ALONE_A_STEP = 64
"""The same where each row is tried by itself, since a plugin does not say what it reads: with four pods 26 to 55 µs
each, and the time of that plugin."""
_FEW_ROWS = 2
"""Rows that are tried one by one: with four pods there 26 to 55 µs each, where a wave takes 98 to 176 for any few. More
pods cost both of them more, since a wave takes a step for each place."""
_MAX_ERROR = 300
"""Characters of an error's text that are kept."""


class Search(Struct):
    """Tries rows in turn until there are candidates enough: ``wanted`` of them, but while all of them violate a budget,
    only at the last row."""

    wanted: int
    refused: RefusedRows
    harmless: list[Candidate] = field(default_factory=list)
    violating: list[Candidate] = field(default_factory=list)
    is_over: bool = False
    tried: int = 0
    """The number of tried rows whose answer was not known."""
    faults: dict[str, None] = field(default_factory=dict)
    """Errors of waves whose rows were then tried one by one, in order: each is a fault of a plugin, or of ours."""

    def _each(self, answers: Iterable[tuple[int, Answer]]) -> None:
        """(row, what ``dry_run_node`` says of it), row by row."""
        for row, answer in answers:
            if isinstance(answer, Refusal):
                self.refused.add(answer, (row,))
                continue
            group = self.violating if answer.pdb_violations else self.harmless
            if len(group) < self.wanted:
                group.append(answer)
            if self.harmless and len(self.harmless) + len(self.violating) >= self.wanted:
                self.is_over = True
                return

    def in_waves(self, trial: Trial, rows: Rows, columns: PodColumns | None) -> Steps[None]:
        """Tries the rows in waves. ``columns`` None: each row is tried by itself.

        In a pause others may search, with the same columns, of this class of pods, too, and on a fork.
        """
        size = self._first_size(columns)
        usual = 0 if columns is None else columns.rows_searched + columns.rows_searched // 4
        start = 0
        while True:
            end, enough = start + ROWS_A_STEP, self.tried + ROWS_TRIED_A_STEP
            filters = None if columns is None else columns.kept.filters(trial)
            if columns is None or filters is None:
                end = start + ROWS_ALONE_A_STEP
                self._each((row, dry_run_node(trial, row)) for row in rows[start:end].tolist())
                start = end
            else:
                for place, part in enumerate(columns.stale_parts(trial.view.table, rows[start:end])):
                    if place:
                        yield
                    self._refresh(trial, part, columns)
                while start < min(end, len(rows)) and self.tried < enough and not self.is_over:
                    most = min(end - start, size, enough - self.tried)
                    start += self._wave(trial, rows[start:end], most, usual, columns, filters)
                    size = self._next_size(size, start)
                    columns.rows_searched = start
            if start >= len(rows) or self.is_over:
                return
            yield

    def _refresh(self, trial: Trial, rows: Rows, columns: PodColumns) -> None:
        """Bring these rows up to date for the waves. An error is left to them: what fails here fails there, too."""
        try:
            columns.refresh(trial.view.table, rows)
        except Exception as error:  # noqa: BLE001 - of ours: it makes the search slow, not wrong
            self.faults[_described(error)] = None
            columns.clear()

    def _wave(self, trial: Trial, rows: Rows, most: int, usual: int, columns: PodColumns, filters: WaveFilters) -> int:
        """Try the first ``most`` of these rows, or more of them if they are known; returns how many."""
        kept = columns.kept.of(trial, filters)
        if kept is not None:
            return self._go_on(trial, rows[: max(most, usual)], most, columns, filters, kept)
        wave = rows[:most]
        self.tried += len(wave)
        self._each(_or_plainly(trial, wave, self._tried(trial, wave, columns, filters)))
        return most

    def _first_size(self, columns: PodColumns | None) -> int:
        """Rows of the first wave: as many as the last search has tried, since a second wave costs as much as the first;
        no more than the second would be."""
        usual = max(self.wanted, _SMALLEST_WAVE)
        return usual if columns is None else max(usual, min(2 * usual, columns.rows_searched))

    def _next_size(self, size: int, tried: int) -> int:
        """Rows of the next wave, since the search may end at any row: as many as the rows so far say that it takes,
        twice as many as before at the most, and while there are no candidates."""
        found = len(self.harmless) + len(self.violating)
        if not self.harmless:
            return 2 * size
        expected = -(-(self.wanted - found) * tried // found)
        return min(2 * size, max(_SMALLEST_WAVE, expected))

    def _tried(self, trial: Trial, wave: Rows, columns: PodColumns, filters: WaveFilters) -> Mapping[int, Answer]:
        """``wave_answers``; none where a plugin cannot be asked so."""
        try:
            return wave_answers(trial, wave, columns, filters)
        except Inexact:
            pass  # A plugin looks at the pods themselves: the plain dry run shows them.
        except Exception as error:  # noqa: BLE001 - of a plugin or of ours: it makes the search slow, not wrong
            self.faults[_described(error)] = None
            columns.clear()
        return {}

    def _go_on(
        self, trial: Trial, rows: Rows, most: int, columns: PodColumns, filters: WaveFilters, kept: RowAnswers
    ) -> int:
        """Go on with these rows, of which most are known, until ``most`` had to be tried or the candidates are enough;
        returns how many rows that were."""
        codes: Codes | None = None
        found: Mapping[int, Answer | None] | None = None
        try:
            columns.refresh(trial.view.table, rows)
            counted = rows_counted(trial, rows, columns, kept.silent)
            known = kept.known(rows, columns, counted)
            end = self._end(known, most)
            rows, codes = rows[:end], known[:end]
            self.tried += int(np.count_nonzero(codes == UNKNOWN))
            found = _with_found(trial, rows, codes, counted, columns, filters, kept)
        except Inexact:
            codes = None  # A plugin looks at the pods themselves: the plain dry run shows them.
        except Exception as error:  # noqa: BLE001 - of a plugin or of ours: it makes the search slow, not wrong
            codes = None
            self.faults[_described(error)] = None
            columns.clear()
        if codes is None:
            rows = rows[: min(most, ROWS_ALONE_A_STEP)]
            self.tried += ROWS_TRIED_A_STEP  # This ends the step.
            self._each(_or_plainly(trial, rows, {}))
        elif found is None:
            self._of_kept(kept, rows, codes, columns)
        else:
            each = zip(rows.tolist(), codes.tolist(), strict=True)
            answers = {row: kept.answer(row, code, columns) for row, code in each}
            self._each(_or_plainly(trial, rows, {**answers, **found}))
        return len(rows)

    def _end(self, codes: Codes, most: int) -> int:
        """How many of the rows with these codes it takes to find the candidates that are missing, or to come to the row
        after the first ``most`` that are not known."""
        end = len(codes)
        missing = self.wanted - len(self.harmless)
        places = np.flatnonzero(codes == CANDIDATE)
        if 0 < missing <= len(places):
            end = int(places[missing - 1]) + 1
        unknown = np.flatnonzero(codes[:end] == UNKNOWN)
        return int(unknown[most]) if len(unknown) > most else end

    def _of_kept(self, kept: RowAnswers, wave: Rows, codes: Codes, columns: PodColumns) -> None:
        """Take rows whose answers are all known; no kept candidate violates a budget."""
        places = np.flatnonzero(codes == CANDIDATE)[: self.wanted - len(self.harmless)]
        self.harmless += kept.candidates(wave[places], columns)
        if self.harmless and len(self.harmless) + len(self.violating) >= self.wanted:
            self.is_over = True
            end = int(places[-1])
            wave, codes = wave[:end], codes[:end]
        refusing = codes > CANDIDATE
        wave, codes = wave[refusing], codes[refusing]
        while len(codes):
            first = codes.item(0)
            is_other = codes != first
            if not is_other.any():
                self.refused.add(kept.refusal(first), wave.tolist())
                return
            self.refused.add(kept.refusal(first), wave[~is_other].tolist())
            wave, codes = wave[is_other], codes[is_other]


def _described(error: Exception) -> str:
    """The error and the function that raised it."""
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    place = "" if where is None else f" in {where.tb_frame.f_code.co_qualname}"
    return f"{type(error).__name__}: {message_of(error)[:_MAX_ERROR]}{place}"


def _with_found(
    trial: Trial,
    rows: Rows,
    codes: Codes,
    counted: Mask | None,
    columns: PodColumns,
    filters: WaveFilters,
    kept: RowAnswers,
) -> Mapping[int, Answer] | None:
    """Tries the rows of which nothing is known, and fills in their codes. None: then all are known. Else what was
    found of those rows, which may leave some to the plain dry run."""
    unknown = np.flatnonzero(codes == UNKNOWN)
    if not len(unknown):
        return None
    new = rows[unknown]
    found, lasting = _found(trial, new, columns, filters)
    if counted is not None:
        lasting = {row: lasting[row] for row in new[~counted[unknown]].tolist() if row in lasting}
    code_of = dict(zip(lasting, kept.keep(trial, lasting, columns), strict=True))
    codes[unknown] = [code_of.get(row, UNKNOWN) for row in new.tolist()]
    return None if (codes[unknown] != UNKNOWN).all() else found


def _found(
    trial: Trial, new: Rows, columns: PodColumns, filters: WaveFilters
) -> tuple[dict[int, Answer], dict[int, Answer]]:
    """Answers for rows of which nothing is known, and those of them that hold for other pods of the class, too."""
    if len(new) <= _FEW_ROWS and filters.are_plain:
        return _of_few_rows(trial, new, columns)
    found = wave_answers(trial, new, columns, filters)
    return found, found


def _of_few_rows(trial: Trial, rows: Rows, columns: PodColumns) -> tuple[dict[int, Answer], dict[int, Answer]]:
    """The plain dry runs of rows, and of their answers those that hold for other pods of the class, too.

    While preemptors wait, hardly more than one row changes between two attempts.
    """
    found: dict[int, Answer] = {row: dry_run_node(trial, row) for row in rows.tolist()}
    is_kept, last_start = columns.is_kept, columns.last_start
    return found, {
        row: answer
        for row, answer in found.items()
        if is_kept[row] and last_start[row] < trial.now and not _is_error(answer)
    }


def _is_error(answer: Answer) -> bool:
    return isinstance(answer, Refusal) and answer.code is Code.ERROR


def _or_plainly(trial: Trial, rows: Rows, known: Mapping[int, Answer | None]) -> Iterator[tuple[int, Answer]]:
    """The answer for each row in turn, from the plain dry run where none is known."""
    for row in rows.tolist():
        answer = known.get(row)
        yield row, dry_run_node(trial, row) if answer is None else answer
