"""The class cache: pods that look alike share answers.

1.  Each plugin reduces a pod to a *fragment*: just what its answers depend on. The fragments together are the pod's
    class; the thousand pods of a Deployment are one class, and so are those of a StatefulSet.
2.  Per class the answers for all rows are kept (``class_filters.py``, ``class_scores.py``): which rows fit, how good
    they are, with each plugin's part.
3.  When the next pod of the class comes, only what changed is asked again: the rows in the cache's journal, by each
    plugin that declared that it reads what changed there; and a plugin whose *stamp* (the versions of the counters and
    kinds it reads) is another one, for all rows.
4.  A plugin that declares nothing is asked afresh each time, unless it says that such pods do not concern it; the
    others' answers are still shared.

What differs between pods of a class is never in here: nominations are an overlay of the cycle.
The cache is bounded in bytes; the class used longest ago leaves first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scheduler.cluster.interning import Interner
from scheduler.cluster.pod_template import TemplateKey, template_key
from scheduler.errors import PluginError
from scheduler.framework.classes.filters import ClassFilters
from scheduler.framework.classes.nominated_overlay import NominatedOverlay
from scheduler.framework.classes.scores import ClassScores
from scheduler.framework.plugin import Plugin, Reads

if TYPE_CHECKING:
    from scheduler.cluster.cache import ClusterCache
    from scheduler.cluster.pod_info import Arithmetic, PodInfo
    from scheduler.cluster.row_journal import RowJournal
    from scheduler.cluster.view import View
    from scheduler.framework.profile import Profile

TEMPLATES_PER_CLASS = 10
"""Templates that are kept for each class that may be."""
CLASS_BYTES = 12 * 1024
"""Of a class besides its arrays; that of a plain pod with the default plugins took 11 KiB."""
TEMPLATE_BYTES = 3 * 1024
"""Of a template of a plain pod."""
COMBINATION_BYTES = 768
"""Of a combination of fragments of a plain pod."""
ORDINARY_WRITTEN_BYTES = 4096
BYTES_PER_WRITTEN_BYTE = 10
"""Of a pod's fragments and states, for each byte by which its spec in JSON is longer than that: a term of a node
affinity is 70 bytes long, and takes some 700 when parsed."""

Fragments = dict[str, Hashable]
"""Plugin name → fragment, of the plugins that declare what they read."""
Number = int | tuple[int, int]
"""Stands for a combination of fragments: (caches below, number) for one that was new in a fork."""


class PodClass:
    """The shared answers of one class in one profile."""

    __slots__ = ("filters", "overlays", "scores", "unconcerned", "uses", "written_bytes")

    def __init__(self, profile: Profile, unconcerned: frozenset[str] = frozenset(), written_bytes: int = 0) -> None:
        self.written_bytes = written_bytes
        """The length of a pod's spec."""
        self.unconcerned = unconcerned
        """Plugins that have nothing to say about pods of the class."""
        self.filters = ClassFilters(profile, unconcerned)
        self.scores = ClassScores(profile, unconcerned)
        self.overlays: dict[int, NominatedOverlay] = {}
        """Priority → where pods of the class and that priority do not fit beside nominated ones."""
        self.uses = 0

    @property
    def nbytes(self) -> int:
        arrays = self.filters.nbytes + self.scores.nbytes
        return CLASS_BYTES + arrays + _extra_bytes(self.written_bytes)

    def copied(self, profile: Profile) -> PodClass:
        """The same answers, to be brought up to date elsewhere: with a fork of the cluster that they are about."""
        other = PodClass(profile, self.unconcerned, self.written_bytes)
        other.filters.take_from(self.filters)
        other.scores.take_from(self.scores)
        other.uses = self.uses
        return other


@dataclass(slots=True)
class _Template:
    """What is known of pods made from one template."""

    number: Number
    """Of the fragments that depend on the pod alone."""
    epoch: tuple[int, ...]
    """Of the view for which the stamps held last; () where a plugin promises nothing."""
    stamps: tuple[Hashable, ...]
    arithmetic: Arithmetic
    nbytes: int
    unconcerned: frozenset[str]
    key: Hashable
    fragments: Fragments


class ClassCache:
    """The classes of all profiles, at most ``limit_bytes`` of them (and always at least one); as many bytes at most of
    templates, and of combinations of fragments."""

    def __init__(self, limit_bytes: int = 48 * 2**20, limit_classes: int = 4096) -> None:
        self.limit_bytes = limit_bytes
        self.limit_classes = limit_classes
        self._classes: OrderedDict[Hashable, PodClass] = OrderedDict()
        self._static_keys: Interner[Hashable] = Interner()
        self._templates: dict[Hashable, _Template] = {}
        self._template_bytes = 0
        self._static_bytes = 0
        self._below: _Below | None = None
        """Of a fork: where answers are read that it does not have."""
        self._depth = 0
        """Caches below."""
        self._bytes = 0
        self._sizes: dict[Hashable, int] = {}
        self._newest: Hashable = None
        """The key of the class made last: it is weighed when the next one is made, with its answers in."""

    def __len__(self) -> int:
        return len(self._classes)

    def find(self, profile: Profile, pod: PodInfo, view: View) -> tuple[PodClass, Fragments]:
        """The class of a pod, made if it is new, and the pod's fragments. Raises PluginError."""
        key, fragments, unconcerned = self._key_of(profile, pod, view)
        found = self._classes.get(key)
        if found is None:
            self._make_room()
            known = None if self._below is None else self._below.class_of(key)
            if known is None:
                written = template_key(pod)
                found = PodClass(profile, unconcerned, 0 if written is None else written.nbytes)
            else:
                found = known.copied(profile)
            self._classes[key] = found
            self._sizes[key] = 0
            self._newest = key
        else:
            self._classes.move_to_end(key)
        found.uses += 1
        if found.uses & 15 == 2:
            self._weigh(key, found)
        return found, fragments

    def _key_of(self, profile: Profile, pod: PodInfo, view: View) -> tuple[Hashable, Fragments, frozenset[str]]:
        """Worked out once a template, and again where a fragment that depends on the cluster may be another one."""
        template = template_key(pod)
        kept = self._template(profile, template) if template is not None else None
        epoch = view.epoch
        if kept is not None and kept.epoch == epoch:
            pod.take_arithmetic(kept.arithmetic)
            return kept.key, kept.fragments, kept.unconcerned
        stamps = tuple([plugin.fragment_stamp(view) for plugin in profile.cluster_fragment_plugins])
        promised_epoch = () if None in stamps else epoch
        if kept is not None and kept.stamps == stamps and None not in stamps:
            kept.epoch = epoch
            pod.take_arithmetic(kept.arithmetic)
            return kept.key, kept.fragments, kept.unconcerned
        if kept is not None:
            pod.take_arithmetic(kept.arithmetic)
            number, fragments, unconcerned = kept.number, dict(kept.fragments), kept.unconcerned
        else:
            fragments = {plugin.name: _fragment(plugin, pod, view) for plugin in profile.static_fragment_plugins}
            unconcerned = frozenset([plugin.name for plugin in profile.choosy_plugins if not _concerns(plugin, pod)])
            number = self._number_of(profile, fragments, unconcerned, 0 if template is None else template.nbytes)
        moving = []
        known_stamps = (None,) * len(stamps) if kept is None else kept.stamps
        for plugin, stamp, known in zip(profile.cluster_fragment_plugins, stamps, known_stamps, strict=True):
            if stamp is None or stamp != known:
                fragments[plugin.name] = _fragment(plugin, pod, view)
            moving.append(fragments[plugin.name])
        key = (profile.scheduler_name, number, tuple(moving))
        if template is not None:
            self._keep_template(
                profile.scheduler_name,
                template,
                _Template(
                    number,
                    promised_epoch,
                    stamps,
                    pod.arithmetic,
                    TEMPLATE_BYTES + _extra_bytes(template.nbytes),
                    unconcerned,
                    key,
                    fragments,
                ),
            )
        return key, fragments, unconcerned

    def _template(self, profile: Profile, template: TemplateKey) -> _Template | None:
        key = profile.scheduler_name, template
        kept = self._templates.get(key)
        if kept is None and self._below is not None:
            kept = self._below.template(key)
            if kept is not None:
                kept = replace(kept)
                self._keep_template(*key, kept)
        return kept

    def _keep_template(self, scheduler_name: str, template: TemplateKey, made: _Template) -> None:
        key = scheduler_name, template
        if key not in self._templates:
            self._template_bytes += made.nbytes
        self._templates[key] = made
        while len(self._templates) > 1 and (
            len(self._templates) > TEMPLATES_PER_CLASS * self.limit_classes or self._template_bytes > self.limit_bytes
        ):
            oldest = next(iter(self._templates))
            self._template_bytes -= self._templates.pop(oldest).nbytes

    def _number_of(
        self, profile: Profile, fragments: Fragments, unconcerned: frozenset[str], written_bytes: int
    ) -> Number:
        """One small number for a combination of fragments, so that the long ones are hashed once."""
        if len(self._static_keys) > 64 * self.limit_classes or self._static_bytes > self.limit_bytes:
            self.clear()
        combination = (profile.scheduler_name, unconcerned, *fragments.values())
        try:
            if self._below is not None:
                # A number of the caches below means the same here; what is new here has one that none of them has.
                known = self._below.number_of(combination)
                return known or (self._depth, self._static_keys.intern(combination))
            before = len(self._static_keys)
            number = self._static_keys.intern(combination)
            if len(self._static_keys) > before:
                self._static_bytes += COMBINATION_BYTES + _extra_bytes(written_bytes)
            return number
        except TypeError as error:
            culprit = next((name for name, fragment in fragments.items() if not _is_hashable(fragment)), "")
            raise PluginError(culprit, "Fragment", error) from error

    def clear(self) -> None:
        """Forget every answer (a profile changed)."""
        self._classes.clear()
        self._sizes.clear()
        self._templates.clear()
        self._static_keys = Interner()
        self._bytes = self._template_bytes = self._static_bytes = 0

    def fork(self, below: ClusterCache) -> ClassCache:
        """For a fork of the cluster ``below``, made at the same time: what it knows is read for as long as nothing
        happens there; what comes out in the fork is kept in the fork."""
        other = ClassCache(self.limit_bytes, self.limit_classes)
        other._below = _Below(self, self._static_keys, below.view, below.journal)
        other._depth = self._depth + 1
        return other

    def _known_number(self, combination: Hashable) -> Number | None:
        found = self._static_keys.find(combination)
        if self._below is None:
            return found or None
        return (self._depth, found) if found else self._below.number_of(combination)

    def _peek(self, key: Hashable) -> PodClass | None:
        found = self._classes.get(key)
        return self._below.class_of(key) if found is None and self._below is not None else found

    def _peek_template(self, key: Hashable) -> _Template | None:
        found = self._templates.get(key)
        return self._below.template(key) if found is None and self._below is not None else found

    def _make_room(self) -> None:
        """Before another class comes: most classes are met once only, so this is where they are weighed."""
        newest = self._classes.get(self._newest)
        if newest is not None:
            self._weigh(self._newest, newest)

    def _weigh(self, key: Hashable, pod_class: PodClass) -> None:
        nbytes = pod_class.nbytes
        self._bytes += nbytes - self._sizes[key]
        self._sizes[key] = nbytes
        while len(self._classes) > 1 and (self._bytes > self.limit_bytes or len(self._classes) > self.limit_classes):
            oldest, _ = self._classes.popitem(last=False)
            self._bytes -= self._sizes.pop(oldest)


def _extra_bytes(written_bytes: int) -> int:
    return BYTES_PER_WRITTEN_BYTE * max(0, written_bytes - ORDINARY_WRITTEN_BYTES)


class _Below:
    """The class cache that another was forked from, as long as it is about the same cluster."""

    __slots__ = ("_classes", "_epoch", "_journal", "_position", "_view", "static_keys")

    def __init__(self, classes: ClassCache, static_keys: Interner[Hashable], view: View, journal: RowJournal) -> None:
        self._classes = classes
        self.static_keys = static_keys
        self._view = view
        self._epoch = view.epoch
        self._journal = journal
        self._position = journal.position

    def number_of(self, combination: Hashable) -> Number | None:
        return self._classes._known_number(combination) if self._is_unchanged else None

    def class_of(self, key: Hashable) -> PodClass | None:
        return self._classes._peek(key) if self._is_unchanged else None

    def template(self, key: Hashable) -> _Template | None:
        return self._classes._peek_template(key) if self._is_unchanged else None

    @property
    def _is_unchanged(self) -> bool:
        is_same = self._journal.position == self._position and self._view.epoch == self._epoch
        return is_same and self._classes._static_keys is self.static_keys


def _fragment(plugin: Plugin, pod: PodInfo, view: View) -> Hashable:
    try:
        return plugin.fragment(pod, view)
    except Exception as error:
        raise PluginError(plugin.name, "Fragment", error) from error


def _concerns(plugin: Plugin, pod: PodInfo) -> bool:
    try:
        return plugin.concerns(pod)
    except Exception as error:
        raise PluginError(plugin.name, "PreFilter", error) from error


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def declares_fragment(plugin: Plugin) -> bool:
    return Reads.UNDECLARED not in plugin.reads
