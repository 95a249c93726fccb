"""The class cache: pods that look alike share answers.

1.  Each plugin reduces a pod to a *fragment*: just what its answers depend on. The fragments together are the pod's
    class; the thousand pods of a Deployment are one class, and so are those of a StatefulSet (``templates.py``).
2.  Per class the answers for all rows are kept (``filters.py``, ``scores.py``): which rows fit, how good they are, with
    each plugin's part.
3.  When the next pod of the class comes, only what changed is asked again: the rows in the cache's journal, by each
    plugin that declared that it reads what changed there; and a plugin whose *stamp* (the versions of the counters and
    kinds it reads) has changed, for all rows.
4.  A plugin that declares nothing is asked each time, unless it says that such pods do not concern it; the others'
    answers are still shared.

What differs between pods of a class is never in here: nominations are an overlay (``nominated_overlay.py``).
The cache is bounded in bytes; the class used longest ago leaves first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.classes.filters import ClassFilters
from scheduler.framework.classes.nominated_overlay import NominatedOverlay
from scheduler.framework.classes.run import Fragments
from scheduler.framework.classes.scores import ClassScores
from scheduler.framework.classes.templates import Templates
from scheduler.framework.profile import Profile

CLASS_BYTES = 48 * 2**20
TEMPLATE_BYTES = 16 * 2**20


class PodClass:
    """The shared answers of one class in one profile."""

    __slots__ = ("_weighed", "filters", "is_known", "nbytes", "overlays", "scores", "unconcerned")

    def __init__(self, profile: Profile, unconcerned: frozenset[str] = frozenset()) -> None:
        self.unconcerned = unconcerned
        """Plugins that have nothing to say about pods of the class."""
        self.filters = ClassFilters(profile.pre_filter_plugins, profile.filter_plugins, unconcerned)
        self.scores = ClassScores(profile.score_plugins, unconcerned)
        self.overlays: dict[int, NominatedOverlay] = {}
        """Priority → where pods of the class and that priority do not fit beside nominated ones."""
        self.is_known = False
        """A pod of the class came before."""
        self.nbytes = 0
        """Of the columns, when they were weighed last."""
        self._weighed = -1

    def copied(self, profile: Profile) -> PodClass:
        """The same answers, to be brought up to date elsewhere: with a fork of the cluster that they are about."""
        other = PodClass(profile, self.unconcerned)
        other.filters.take_from(self.filters)
        other.scores.take_from(self.scores)
        other.is_known = self.is_known
        return other

    def weigh(self) -> int:
        """By how many bytes the columns have grown since the last call."""
        columns_made = self.filters.columns_made + self.scores.columns_made
        if columns_made == self._weighed:
            return 0
        self._weighed = columns_made
        before, self.nbytes = self.nbytes, self.filters.nbytes + self.scores.nbytes
        return self.nbytes - before


def _nothing() -> ClassCache | None:
    return None


class ClassCache:
    """The classes of all profiles, at most ``limit_bytes`` of arrays (and always at least one class)."""

    def __init__(
        self, limit_bytes: int = CLASS_BYTES, limit_classes: int = 4096, template_bytes: int = TEMPLATE_BYTES
    ) -> None:
        self.limit_bytes = limit_bytes
        self.limit_classes = limit_classes
        self._templates = Templates(template_bytes)
        self._classes: OrderedDict[Hashable, PodClass] = OrderedDict()
        self._bytes = 0
        self._latest: PodClass | None = None
        """The class found last: it has been filled since, and is weighed when the next one is asked for."""
        self._below: Callable[[], ClassCache | None] = _nothing
        """Of a fork: where answers are read that it does not have."""

    def __len__(self) -> int:
        return len(self._classes)

    def find(self, profile: Profile, pod: PodInfo, view: View) -> tuple[PodClass, Fragments]:
        """The class of a pod, made if it is new, and the pod's fragments. Raises PluginError."""
        template = self._templates.find(profile, pod, view)
        self._weigh_latest()
        found = self._classes.get(template.key)
        if found is None:
            known = self._peek(template.key)
            found = PodClass(profile, template.unconcerned) if known is None else known.copied(profile)
            found.is_known = known is not None
            self._classes[template.key] = found
        else:
            found.is_known = True
            self._classes.move_to_end(template.key)
        self._latest = found
        return found, template.fragments

    def fork(self, cluster: ClusterCache) -> ClassCache:
        """For a fork of ``cluster``, which this cache is about, made at the same time. What is known here is read for
        as long as nothing changes in ``cluster``; what comes out in the fork stays in the fork."""
        view, journal = cluster.view, cluster.journal
        epoch, position = view.epoch, journal.position

        def below() -> ClassCache | None:
            return self if journal.position == position and view.epoch == epoch else None

        def templates_below() -> Templates | None:
            return self._templates if below() is not None else None

        other = ClassCache(self.limit_bytes, self.limit_classes)
        other._templates = self._templates.fork(templates_below)
        other._below = below
        return other

    def _peek(self, key: Hashable) -> PodClass | None:
        found = self._classes.get(key)
        below = self._below() if found is None else None
        return found if below is None else below._peek(key)

    def clear(self) -> None:
        """Forget every answer (a profile changed)."""
        self._classes.clear()
        self._templates.clear()
        self._bytes = 0
        self._latest = None

    def _weigh_latest(self) -> None:
        if self._latest is not None:
            self._bytes += self._latest.weigh()
        while len(self._classes) > 1 and (self._bytes > self.limit_bytes or len(self._classes) > self.limit_classes):
            _, oldest = self._classes.popitem(last=False)
            self._bytes -= oldest.nbytes
