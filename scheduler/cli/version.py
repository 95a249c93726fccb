"""``tandem version``."""

from __future__ import annotations

from importlib import metadata
from typing import Final

KUBERNETES: Final = "1.36"


def version() -> int:
    """Show the version, and the version of kube-scheduler whose decisions it makes."""
    print(f"Tandem {own_version()} (decides as kube-scheduler {KUBERNETES})")
    return 0


def own_version() -> str:
    try:
        return metadata.version("tandem-scheduler")
    except metadata.PackageNotFoundError:
        return "(not installed)"
