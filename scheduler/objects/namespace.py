"""Namespace: its labels decide which pods an affinity term's namespace selector matches."""

from __future__ import annotations

from scheduler.objects.meta import ApiObject


class Namespace(ApiObject, frozen=True):
    pass
