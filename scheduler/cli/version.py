"""``tandem version``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduler.config.own_version import own_version
from scheduler.errors import ConfigurationError, Fault

KUBERNETES: Final = "1.36"


def version(words: Sequence[str] = ()) -> int:
    """Show the version, and the version of kube-scheduler whose decisions it makes."""
    if words:
        raise ConfigurationError([Fault("", f'version takes no options or arguments: "{words[0]}"')])
    print(f"Tandem {own_version() or '(not installed)'} (decides as kube-scheduler {KUBERNETES})")
    return 0
