"""The metrics page in Prometheus' text format, written in steps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import cast

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric


class _Family:
    """One metric family in the place of a registry."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return (self._metric,)


async def exposition(registry: CollectorRegistry) -> bytes:
    """What ``generate_latest`` returns for the registry. Scheduling goes on between two families, so that a page with
    all series of a large cluster is not one step of the event loop."""
    families = []
    for metric in registry.collect():
        # The cast is safe: generate_latest calls nothing but ``collect``.
        families.append(generate_latest(cast(CollectorRegistry, _Family(metric))))
        await asyncio.sleep(0)
    return b"".join(families)
