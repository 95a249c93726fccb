"""The changes that a reader of the row journal finds, where they are many."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from scheduler.cluster.row_journal import NODE_CHANGED, USAGE_CHANGED, RowJournal

FLAGS = (NODE_CHANGED, USAGE_CHANGED, NODE_CHANGED | USAGE_CHANGED)


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(FLAGS)), min_size=1), st.data())
def test_the_flags_of_many_rows_are_those_of_the_single_ones(
    entries: Sequence[tuple[int, int]], data: st.DataObject
) -> None:
    journal = RowJournal()
    for row, flags in entries:
        journal.append(row, flags)
    seen = data.draw(st.integers(0, len(entries) - 1))
    for read in (journal, journal.fork()):
        few, many = read.changes(seen, len(entries)), read.changes(seen, 0)
        assert few is not None
        assert many is not None
        assert many.flags == few.flags
        assert many.nodes() == few.nodes()
        if many.many is not None:
            assert set(many.many.tolist()) == set(few.few)
