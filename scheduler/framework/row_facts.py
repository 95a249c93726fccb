"""Row facts: what a plugin that counts pods knows of each row, as numbers that are compared and not looked into. Of two
attempts with the same facts of a row, its answers there are the same, whichever pods come to the row and go."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from scheduler.cluster.view import View
from scheduler.framework.plugin import State

FactColumn = npt.NDArray[np.int64]


class RowFacts(Struct, frozen=True, eq=False):
    """``of_all``: what holds for all rows, compared by ``==``. ``columns``: by name, one number a row of the table; a
    name that is not there stands for a column of zeros."""

    of_all: tuple[object, ...]
    columns: Mapping[Hashable, FactColumn]


class FactualState(State):
    """A State that tells its facts."""

    __slots__ = ()

    def row_facts(self, view: View) -> RowFacts:
        """What the filter's answers for a row depend on, besides the Node and what ``with_pod`` is called with there:
        where both are equal, the answers are the same after any changes of the row's pods."""
        raise NotImplementedError
