"""What a refresh of a class's scores starts from. See ``scores.py``."""

from __future__ import annotations

from msgspec import Struct, field

from scheduler.cluster.row_journal import RowChanges
from scheduler.framework.class_run import ClassRun
from scheduler.framework.classes.first_refusals import FirstRefusals
from scheduler.framework.plugin import Rows


class ScoreRefresh(Struct):
    """What has changed since the last refresh, and the effect on the totals."""

    run: ClassRun
    first: FirstRefusals
    changes: RowChanges
    is_full: bool
    """All rows are evaluated."""
    feasible_changed: bool
    """The feasible rows differ from those of the last refresh."""
    gains: dict[int, int] = field(default_factory=dict)
    """Row → the change of its total."""

    @property
    def fitting(self) -> Rows:
        """The rows that fit; a slice, which is cheaper, if all do."""
        view = self.run.view
        return view.rows if self.first.feasible_count == view.table.size else self.first.feasible_rows
