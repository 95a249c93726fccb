"""Namespace: its labels count for affinity between pods of different namespaces."""

from __future__ import annotations

from scheduler.objects.meta import ApiObject


class Namespace(ApiObject, frozen=True):
    pass
