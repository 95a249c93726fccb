"""The ids that a table's rows speak in: sets of taints and of declared features, which many nodes share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scheduler.cluster.interning import Interner
from scheduler.objects.node import Taint
from scheduler.objects.pod import Toleration
from scheduler.objects.taints import NO_EXECUTE, NO_SCHEDULE, TolerationIndex

TaintKey = tuple[str, str, str]
"""(key, value, effect): what a toleration looks at."""

REPELLING_EFFECTS = (NO_SCHEDULE, NO_EXECUTE)

MAX_ANSWERS_BYTES = 4 * 2**20
"""Of kept answers to lists of tolerations."""
_BYTES_PER_TOLERATION = 500


class TableVocabulary:
    """Shared by a table and all that is copied from it.

    An id means the same for as long as the vocabulary lives. A table gives values back by going over to another
    vocabulary, which it does not do while a fork lives.
    """

    __slots__ = ("_answers", "_answers_bytes", "features", "taints")

    def __init__(
        self,
        taints: Interner[tuple[TaintKey, ...]] | None = None,
        features: Interner[frozenset[str]] | None = None,
    ) -> None:
        self.taints: Interner[tuple[TaintKey, ...]] = taints or Interner()
        self.features: Interner[frozenset[str]] = features or Interner()
        self._answers: dict[tuple[tuple[Toleration, ...], tuple[str, ...], bool], _TaintAnswers] = {}
        self._answers_bytes = 0

    def taint_answers(
        self, tolerations: tuple[Toleration, ...], effects: tuple[str, ...], comparison_operators: bool
    ) -> npt.NDArray[np.bool_]:
        """Whether all taints with one of the effects are tolerated: bool by taint-set id. Do not change it."""
        key = tolerations, effects, comparison_operators
        answers = self._answers.get(key)
        if answers is None:
            answers = self._answers[key] = _TaintAnswers(self.taints, *key)
            self._answers_bytes += answers.nbytes
            while self._answers_bytes > MAX_ANSWERS_BYTES and len(self._answers) > 1:
                self._answers_bytes -= self._answers.pop(next(iter(self._answers))).nbytes
        return answers.up_to_date()


class _TaintAnswers:
    """The answers for one list of tolerations, worked out once a taint set."""

    __slots__ = ("_answers", "_effects", "_index", "_sets", "nbytes")

    def __init__(
        self,
        sets: Interner[tuple[TaintKey, ...]],
        tolerations: tuple[Toleration, ...],
        effects: tuple[str, ...],
        comparison_operators: bool,
    ) -> None:
        self._sets = sets
        self._index = TolerationIndex(tolerations, comparison_operators=comparison_operators)
        self._effects = effects
        self._answers: npt.NDArray[np.bool_] = np.ones(1, np.bool_)
        self.nbytes = _BYTES_PER_TOLERATION * (1 + len(tolerations)) + 2 * len(sets)

    def up_to_date(self) -> npt.NDArray[np.bool_]:
        known = len(self._answers)
        if known < len(self._sets):
            more = [self._accepts(taints or ()) for taints in self._sets.values[known:]]
            self._answers = np.append(self._answers, more)
        return self._answers

    def _accepts(self, taints: tuple[TaintKey, ...]) -> bool:
        return all(
            self._index.tolerates(Taint(key=key, value=value, effect=effect))
            for key, value, effect in taints
            if effect in self._effects
        )
