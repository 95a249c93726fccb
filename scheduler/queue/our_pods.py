"""Whose pods are scheduled here."""

from __future__ import annotations

from msgspec import Struct


class OurPods(Struct, frozen=True):
    """Whose pods count: ``profile_names`` are the scheduler names that are ours; with ``counts_foreign_nominations``
    the nominations of other schedulers' pods count too (``nominations: all``)."""

    profile_names: frozenset[str]
    counts_foreign_nominations: bool = False
