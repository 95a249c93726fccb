"""Numbers that pods add to on their rows: how preemption asks a filter plugin about thousands of what-ifs at once.

A filter whose answer for a row depends on the pods there says so in one of three ways. It reads what the node table
adds up (``Reads.USAGE``: requested resources). Or its State counts pods one by one (``State.with_pod``). Or its State
gives ``tallies``: numbers, one a row, that each pod on the row adds its share to, with a bound that refuses the row
when it is exceeded; then preemption takes pods away and gives them back by arithmetic, for all rows at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.messages.status import Refusal

Column = npt.NDArray[np.int64]
Matrix = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NEVER = np.iinfo(np.int64).max
"""The bound of a row that is never refused."""


class RowPods(Protocol):
    """The pods of some rows of the live table, the most important of a row first: a pod's *place* is its index."""

    @property
    def view(self) -> View:
        """The live one."""
        ...

    @property
    def rows(self) -> Column:
        """Rows of the live table; the *position* of a row is its index in here."""
        ...

    def infos(self, position: int) -> Sequence[PodInfo]:
        """The pods of one row by place."""
        ...

    def numbers(
        self, key: Hashable, measure: Callable[[int, Sequence[PodInfo]], Sequence[int]], stamps: Column | None = None
    ) -> Matrix:
        """A number of each pod, kept under ``key`` from attempt to attempt: int64, one line a position, one entry a
        place, 0 where there is no pod.

        ``measure`` is asked, for a row of the live table and its pods by place, when the pods of the row have changed,
        or the row's entry in ``stamps`` (int64, by row of the live table).
        """
        ...

    def kinds(self, facet: Callable[[PodInfo], Hashable]) -> tuple[Matrix, Sequence[PodInfo | None]]:
        """A number for each value of a facet, kept from attempt to attempt: (int64, one line a position and one entry a
        place, 0 where the facet is false or there is no pod; by number, a pod that has the value)."""
        ...


class Account(Protocol):
    """The number of one row, where its pods' shares do not simply add up: two pods may share a volume."""

    def change(self, info: PodInfo, sign: int) -> None:
        """A pod comes (+1) or leaves (-1)."""
        ...

    def beside(self, infos: Sequence[PodInfo], sign: int) -> None:
        """Nominated pods are counted (+1), or are no longer (-1)."""
        ...

    @property
    def number(self) -> int: ...


class Tally:
    """``numbers``: int64, one a position, with all pods of the rows counted; ``bounds``: what they may be at the most.
    ``shares``: int64, one line a position and one entry a place: what each pod adds. ``share_beside``: what pods
    nominated to the row of a position add; None if that depends on the pods there (``with_accounts``).
    """

    __slots__ = ("_accounts", "_beside", "_bounds", "_make", "_numbers", "_pods", "_share_beside", "_shares", "refusal")

    def __init__(
        self,
        refusal: Refusal,
        pods: RowPods,
        numbers: Column,
        bounds: Column,
        shares: Matrix,
        share_beside: Callable[[int, Sequence[PodInfo]], int | None],
    ) -> None:
        self.refusal = refusal
        self._pods = pods
        self._numbers = numbers.copy()
        self._bounds = bounds
        self._share_beside = share_beside
        self._make: Callable[[int], Account] | None = None
        self._accounts: dict[int, Account] = {}
        self._beside: tuple[Column, Mapping[int, Sequence[PodInfo]]] | None = None
        self._shares = shares.T.copy()

    def with_accounts(self, account: Callable[[int], Account], positions: Iterable[int]) -> Tally:
        """This tally, which uses accounts where shares do not add up: at these positions, and where ``share_beside``
        says so. ``account`` makes that of a position."""
        self._make = account
        for position in positions:
            self._open_account(position)
        return self

    @classmethod
    def always(cls, refusal: Refusal, pods: RowPods) -> Tally:
        """Refuses every row, whichever pods are there."""
        size = len(pods.rows)
        return cls(refusal, pods, np.ones(size, np.int64), np.zeros(size, np.int64), no_shares(pods), lambda _, __: 0)

    @property
    def is_refused(self) -> Mask:
        return self._numbers > self._bounds

    @property
    def is_constant(self) -> bool:
        """Whether no pod of the rows changes anything."""
        return not self._accounts and not self._shares.any()

    def _open_account(self, position: int) -> None:
        assert self._make is not None
        account = self._accounts[position] = self._make(position)
        self._shares[:, position] = 0
        self._numbers[position] = account.number

    def take_away(self, is_gone: Mask) -> None:
        """Take pods from every row. ``is_gone``: bool, one line a place and one entry a position."""
        width = min(len(is_gone), len(self._shares))
        self._numbers -= np.einsum("ij,ij->j", self._shares[:width], is_gone[:width])
        for position in self._accounts:
            for place in np.flatnonzero(is_gone[:, position]).tolist():
                self._settle(position, place, -1)

    def change(self, place: int, positions: Mask, sign: int) -> None:
        """Give back (+1), or take (-1), the pod at ``place`` of each of these rows (bool, one a position)."""
        if place < len(self._shares):
            self._numbers += sign * (self._shares[place] * positions)
        for position in self._accounts:
            if positions[position]:
                self._settle(position, place, sign)

    def _settle(self, position: int, place: int, sign: int) -> None:
        account = self._accounts[position]
        account.change(self._pods.infos(position)[place], sign)
        self._numbers[position] = account.number

    def set_beside(self, pods: Mapping[int, Sequence[PodInfo]]) -> None:
        """Which pods ``change_beside`` puts on which positions. To be called before any pod is taken away."""
        shares = np.zeros(len(self._numbers), np.int64)
        accounted = {}
        for position, infos in pods.items():
            share = None if position in self._accounts else self._share_beside(position, infos)
            if share is not None:
                shares[position] = share
                continue
            if position not in self._accounts:
                self._open_account(position)
            accounted[position] = infos
        if accounted or shares.any():
            self._beside = shares, accounted

    def change_beside(self, sign: int) -> None:
        """Add (+1), or take (-1), the pods of ``set_beside``."""
        if self._beside is None:
            return
        shares, accounted = self._beside
        self._numbers += sign * shares
        for position, infos in accounted.items():
            account = self._accounts[position]
            account.beside(infos, sign)
            self._numbers[position] = account.number


def summed(share_of: Callable[[PodInfo], int]) -> Callable[[int, Sequence[PodInfo]], int]:
    """A ``share_beside`` for pods that add the same whichever others are there."""
    return lambda _, infos: sum(map(share_of, infos))


def no_shares(pods: RowPods) -> Matrix:
    """Shares of rows whose pods add nothing."""
    return np.zeros((len(pods.rows), 0), np.int64)


def shares_on(
    rows: Collection[int],
    pods: RowPods,
    share_of: Callable[[PodInfo], int],
    facet: Callable[[PodInfo], Hashable],
) -> Matrix:
    """Shares of the pods of these rows of the live table; those of all other rows add nothing.

    ``share_of`` depends on the ``facet`` of a pod alone (hashable, false where the pod has no share whatever is asked),
    and is asked once for each that occurs.
    """
    positions = np.flatnonzero(np.isin(pods.rows, list(rows))) if rows else ()
    if not len(positions):
        return no_shares(pods)
    kinds, examples = pods.kinds(facet)
    there = kinds[positions]
    answers = np.zeros(len(examples), np.int64)
    for kind in np.flatnonzero(np.bincount(there.ravel())).tolist():
        example = examples[kind]
        answers[kind] = 0 if example is None else share_of(example)
    shares = np.zeros((len(pods.rows), kinds.shape[1]), np.int64)
    shares[positions] = answers[there]
    return shares
