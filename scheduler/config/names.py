"""The scheduler's own names, where a configuration states no others."""

from __future__ import annotations

from typing import Final

SCHEDULER_NAME: Final = "tandem-scheduler"
"""The default name of a single profile, and of the Lease."""
OWN_NAMESPACE: Final = "tandem-system"
"""The namespace of the Lease if the namespace that Tandem runs in is unknown."""
NODE_SCOPE_PLUGIN: Final = "NodeScope"
"""The plugin that a profile with a ``nodeScope`` has before all others; no profile can name it."""
