"""The version of the installed package."""

from __future__ import annotations


def own_version() -> str:
    """The version of Tandem, such as ``0.1.0``; "" for a checkout that is not installed."""
    # Imported here: it takes a quarter of the time of a command that asks one question, and few show a version.
    from importlib import metadata

    try:
        return metadata.version("tandem-scheduler")
    except metadata.PackageNotFoundError:
        return ""
