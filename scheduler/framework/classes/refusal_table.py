"""Numbers the refusals of one class of pods, so that a column of answers takes an int16 per row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from scheduler.framework.plugin import FilterPlugin
from scheduler.messages.status import Code, Refusal

MAX_REFUSALS = 4096
"""Distinct refusals that a class keeps between attempts: reasons that name amounts or nodes never repeat."""
_MAX_CODES = 2**15 - 1


class RefusalTable:
    """Code → signed refusal. Code 0 means that the row fits."""

    __slots__ = ("_codes", "_error_codes", "refusals")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Drops all codes; lists returned before stay valid."""
        self.refusals: list[Refusal] = [Refusal(Code.SUCCESS)]
        self._codes: dict[tuple[int, Refusal], int] = {}
        self._error_codes: list[int] = []

    @property
    def is_crowded(self) -> bool:
        """Whether more refusals are kept than ``MAX_REFUSALS``."""
        return len(self.refusals) > MAX_REFUSALS

    @property
    def error_codes(self) -> list[int]:
        """Codes of refusals that end the attempt as an error."""
        return self._error_codes

    def copied(self) -> RefusalTable:
        other = RefusalTable()
        other.refusals = self.refusals[:]
        other._codes, other._error_codes = dict(self._codes), self._error_codes[:]
        return other

    def codes_of(self, index: int, plugin: FilterPlugin, refusals: Sequence[Refusal]) -> npt.NDArray[np.int16]:
        """0 for a row that fits, and the codes of these refusals."""
        return np.array([0, *[self.code_of(index, plugin, refusal) for refusal in refusals]], np.int16)

    def code_of(self, index: int, plugin: FilterPlugin, refusal: Refusal) -> int:
        """The code of a refusal by the filter plugin number ``index``."""
        found = self._codes.get((index, refusal))
        if found is not None:
            return found
        if len(self.refusals) >= _MAX_CODES:
            # More distinct refusals in one attempt than codes: the remaining nodes share an earlier one.
            return next((code for code, known in enumerate(self.refusals) if known.code is refusal.code), 1)
        found = self._codes[index, refusal] = len(self.refusals)
        self.refusals.append(refusal.by(plugin.name))
        if refusal.code is Code.ERROR:
            self._error_codes.append(found)
        return found
