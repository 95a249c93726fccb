"""How pods leave, as making room is informed of it."""

from __future__ import annotations

from enum import Enum


class Left(Enum):
    """How a pod left the queue or its node, or begins to."""

    TERMINATING = "terminating"
    """Its deletion has begun: no preemptor is gated for it as its last victim any more."""
    BOUND = "bound"
    """It is bound; as a victim it still exists."""
    FAILED = "failed"
    """It failed on its node, as when the kubelet finds the room taken."""
    ENDED = "ended"
    """It has run to its end."""
    GONE = "gone"
    """It was deleted, or another pod has its name."""
