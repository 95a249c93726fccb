"""The class cache: equivalent pods share the plugins' answers.

1.  Each plugin reduces a pod to a *fragment*: exactly what its answers depend on. The fragments together are the pod's
    class; the thousand pods of a Deployment are one class, and so are those of a StatefulSet (``templates.py``).
2.  For each class the answers for all rows are cached (``filters.py``, ``scores.py``): which rows fit and their totals,
    with each plugin's part; or, where a decision compares a sample of them, the parts that depend on the row alone
    (``sampled_scores.py``).
3.  For the next pod of the class only what changed is evaluated again: the rows in the cache's journal, by each plugin
    that declared that it reads what changed there; and a plugin whose *stamp* (the versions of the counters and kinds
    it reads) has changed, for all rows. Where only pods came and went, a plugin may say what it counts without counting
    again, and answer by domain: then rows are looked at only if a domain's answer has changed (``shortcuts.py``).
4.  A plugin that declares nothing is called each time, unless it says that such pods do not concern it; the others'
    answers are still shared.

What differs between pods of a class is not cached: nominations are an overlay (``nominated_overlay.py``).
The cache is bounded in classes and in bytes. Classes whose pods are for certain nodes by name, as a DaemonSet's that
do not fit, are evicted first: each is of one pod, and costs little to make again. Then the least recently used one is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.class_run import Fragments
from scheduler.framework.classes.filters import ClassFilters
from scheduler.framework.classes.nominated_overlay import NominatedOverlay
from scheduler.framework.classes.sampled_scores import SampledScores
from scheduler.framework.classes.scores import ClassScores
from scheduler.framework.classes.templates import Templates
from scheduler.framework.plugin import FilterPlugin
from scheduler.framework.profile import Profile

CLASS_BYTES = 48 * 2**20
CLASS_BYTES_A_NODE = 10
"""Bytes that a class may take on average for each node, where that is more than CLASS_BYTES in all: the classes of 300
deployments take 10 to 20. If classes come in turn, a cache that has no room for the last of them keeps none."""
TEMPLATE_BYTES_A_CLASS = 32 * 2**10
"""Room for some ten templates with each class that may be kept: each pod of a StatefulSet is a template of its own."""


class PodClass:
    """The shared answers of one class in one profile."""

    __slots__ = (
        "_sampled_scores",
        "_score_plugins",
        "_scores",
        "_weighed",
        "filters",
        "is_known",
        "key",
        "nbytes",
        "overlays",
        "permit_plugins",
        "reserve_plugins",
        "unconcerned",
    )

    def __init__(self, profile: Profile, unconcerned: frozenset[str] = frozenset(), key: Hashable = None) -> None:
        self.key = key
        """Equal for pods of the same class; never another one's."""
        self.unconcerned = unconcerned
        """Plugins that pods of the class do not concern."""
        self.reserve_plugins = profile.reserving(unconcerned)
        self.permit_plugins = profile.permitting(unconcerned)
        self.filters = ClassFilters(profile.pre_filter_plugins, profile.filter_plugins, unconcerned)
        self._score_plugins = profile.score_plugins
        self._scores: ClassScores | None = None
        self._sampled_scores: SampledScores | None = None
        self.overlays: dict[int, NominatedOverlay] = {}
        """Priority → the rows on which pods of that priority do not fit beside nominated ones."""
        self.is_known = False
        """Whether a pod of the class has been scheduled before."""
        self.nbytes = 0
        """The size of the columns at the last call of ``weigh``."""
        self._weighed = -1

    @property
    def scores(self) -> ClassScores:
        """The scores of all rows that fit."""
        if self._scores is None:
            self._scores = ClassScores(self._score_plugins, self.unconcerned)
        return self._scores

    @property
    def sampled_scores(self) -> SampledScores:
        """The scores of samples of the rows that fit, where a decision looks at no more rows than that."""
        if self._sampled_scores is None:
            self._sampled_scores = SampledScores(self._score_plugins, self.unconcerned)
        return self._sampled_scores

    def overlay(self, priority: int, plugins: Sequence[FilterPlugin]) -> NominatedOverlay:
        """The rows on which pods of this priority do not fit beside nominated ones; ``plugins`` are the profile's."""
        overlay = self.overlays.get(priority)
        if overlay is None:
            overlay = self.overlays[priority] = NominatedOverlay(plugins)
            self._weighed = -1
        return overlay

    def forget_nominated(self) -> None:
        """Drop the overlays: no pod is nominated any more."""
        self.overlays.clear()
        self._weighed = -1

    def copied(self, profile: Profile) -> PodClass:
        """A copy of the answers, to be brought up to date with a fork of the cluster."""
        other = PodClass(profile, self.unconcerned, self.key)
        other.filters.take_from(self.filters)
        if self._scores is not None:
            other.scores.take_from(self._scores)
        other.is_known = self.is_known
        return other

    def weigh(self) -> int:
        """The number of bytes by which the columns have grown since the last call."""
        filters, scores, sampled = self.filters, self._scores, self._sampled_scores
        columns_made = filters.columns_made
        columns_made += (scores.columns_made if scores else 0) + (sampled.columns_made if sampled else 0)
        if columns_made == self._weighed:
            return 0
        self._weighed = columns_made
        before, self.nbytes = self.nbytes, filters.nbytes + sum([each.nbytes for each in self.overlays.values()])
        self.nbytes += (scores.nbytes if scores else 0) + (sampled.nbytes if sampled else 0)
        return self.nbytes - before


def _nothing() -> ClassCache | None:
    return None


class ClassCache:
    """The classes of all profiles: at most ``limit_classes``, of ``limit_bytes`` of arrays or, where that is more, of
    ``bytes_a_node`` each for each node (and always at least one class)."""

    def __init__(
        self,
        limit_bytes: int = CLASS_BYTES,
        limit_classes: int = 4096,
        bytes_a_node: int = CLASS_BYTES_A_NODE,
        template_bytes: int | None = None,
    ) -> None:
        self.limit_bytes = limit_bytes
        self.limit_classes = limit_classes
        self.bytes_a_node = bytes_a_node
        self._templates = Templates(
            TEMPLATE_BYTES_A_CLASS * limit_classes if template_bytes is None else template_bytes
        )
        self._classes: OrderedDict[Hashable, PodClass] = OrderedDict()
        self._bytes = 0
        self._latest: PodClass | None = None
        """The class found last: filled since then, and weighed at the next ``find``."""
        self._below: Callable[[], ClassCache | None] = _nothing
        """Returns the parent cache of a fork while its answers are valid, else None."""

    def __len__(self) -> int:
        return len(self._classes)

    def find(self, profile: Profile, pod: PodInfo, view: View) -> tuple[PodClass, Fragments]:
        """The class of a pod, created if it is new, and the pod's fragments. Raises PluginError."""
        template = self._templates.find(profile, pod, view)
        self._weigh_latest(view.table.size)
        found = self._classes.get(template.key)
        if found is None:
            known = self._peek(template.key)
            found = PodClass(profile, template.unconcerned, template.key) if known is None else known.copied(profile)
            found.is_known = known is not None
            self._classes[template.key] = found
        else:
            found.is_known = True
            if found is not self._latest:
                self._classes.move_to_end(template.key)
        self._latest = found
        return found, template.fragments

    def recall(self, profile: Profile, pod: PodInfo) -> None:
        """Set what was worked out before about pods of its template."""
        self._templates.recall(profile, pod)

    def fork(self, cluster: ClusterCache) -> ClassCache:
        """A cache for a fork of ``cluster``, the cluster of this cache, made at the same time. It reads this cache's
        answers until ``cluster`` changes or counts pods that the fork does not count, and writes only its own."""
        view, journal = cluster.view, cluster.journal
        versions, rows_version, asked = view.versions, journal.version, view.pod_counts.asked

        def below() -> ClassCache | None:
            is_unchanged = journal.version == rows_version and view.versions == versions
            return self if is_unchanged and view.pod_counts.asked == asked else None

        def templates_below() -> Templates | None:
            return self._templates if below() is not None else None

        other = ClassCache(self.limit_bytes, self.limit_classes, self.bytes_a_node)
        other._templates = self._templates.fork(templates_below)
        other._below = below
        return other

    def apart(self) -> ClassCache:
        """An empty cache for an attempt beside this one on the same cluster. None of its classes has a key of this
        one's, so that they can share what attempts keep by those keys."""
        other = ClassCache(0, 1)
        other._templates = self._templates.fork()
        return other

    def _peek(self, key: Hashable) -> PodClass | None:
        found = self._classes.get(key)
        below = self._below() if found is None else None
        return found if below is None else below._peek(key)

    def clear(self) -> None:
        """Drops all answers (a profile has changed)."""
        self._classes.clear()
        self._templates.clear()
        self._bytes = 0
        self._latest = None

    def _weigh_latest(self, nodes: int) -> None:
        latest = self._latest
        if latest is not None:
            self._bytes += latest.weigh()
            if latest.filters.only is not None and latest.key in self._classes:
                self._classes.move_to_end(latest.key, last=False)
        most_bytes = max(self.limit_bytes, self.bytes_a_node * self.limit_classes * nodes)
        while len(self._classes) > 1 and (self._bytes > most_bytes or len(self._classes) > self.limit_classes):
            _, oldest = self._classes.popitem(last=False)
            self._bytes -= oldest.nbytes
