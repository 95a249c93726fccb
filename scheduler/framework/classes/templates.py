"""Caches what all pods of one template share: their fragments and the key of their class."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from itertools import count
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from scheduler.cluster.pod_info import Arithmetic, PodInfo
from scheduler.cluster.pod_template import encoded_bytes, template_key
from scheduler.cluster.view import View
from scheduler.errors import PluginError
from scheduler.framework.class_run import Fragments
from scheduler.framework.plugin import Plugin
from scheduler.framework.profile import Profile

Stamps = tuple[Hashable, ...]

TEMPLATE_BYTES: Final = 2_600
"""Size of a kept template beside its key's texts: measured with 3,000 pods, each with labels of its own."""
NUMBER_BYTES: Final = 1_400
"""Size of a kept combination of fragments, likewise."""


class Template(Struct):
    """The class of pods in one profile, as far as it depends on their template and the cluster."""

    number: int
    """The number of the combination of fragments that depend on the template alone; never reused."""
    key: Hashable
    """The key of the pod's class."""
    fragments: Fragments
    unconcerned: frozenset[str]
    """Plugins that the pods do not concern."""
    arithmetic: Arithmetic | None
    """What the pods request; None if a pod's status counts, too."""
    stamps: Stamps
    """The stamps of the fragments that depend on the cluster."""
    versions: tuple[int, ...]
    """Those of the last view for which the stamps held; () if a plugin declares no stamp."""
    nbytes: int


def _nothing() -> Templates | None:
    return None


class Templates:
    """At most ``limit_bytes`` of templates, and a quarter of that of numbers, counted as the pods' specs in JSON and
    what is kept beside them; what was made the longest ago goes first."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._templates: OrderedDict[tuple[str, Hashable], Template] = OrderedDict()
        self._numbers: OrderedDict[Hashable, tuple[int, int]] = OrderedDict()
        """Profile and fragments → number and bytes; with the number, long fragments are hashed once per template. One
        that is forgotten gets another number the next time, and so another class."""
        self._number_bytes = 0
        self._bytes = 0
        self._new_number = count(1).__next__
        self._below: Callable[[], Templates | None] = _nothing
        """Returns a fork's parent while its templates and numbers are valid, else None."""

    def __len__(self) -> int:
        return len(self._templates)

    def clear(self) -> None:
        """Drops all templates; numbers are not reset, so that no earlier class is found again."""
        self._templates.clear()
        self._numbers.clear()
        self._number_bytes = self._bytes = 0

    def fork(self, below: Callable[[], Templates | None] = _nothing) -> Templates:
        """A layer on top of these templates. ``below`` returns these while they are valid. No number is given twice."""
        other = Templates(self._limit_bytes)
        other._new_number = self._new_number
        other._below = below
        return other

    def peek(self, key: tuple[str, Hashable]) -> Template | None:
        """The template that is known here or below; None without one."""
        found = self._templates.get(key)
        below = self._below() if found is None else None
        return found if below is None else below.peek(key)

    def number(self, combination: Hashable) -> int | None:
        """The number that is known here or below; None without one."""
        found = self._numbers.get(combination)
        if found is not None:
            return found[0]
        below = self._below()
        return below.number(combination) if below is not None else None

    def recall(self, profile: Profile, pod: PodInfo) -> None:
        """Set the pod's arithmetic from a template that is known, without a look at the cluster."""
        key = template_key(pod)
        kept = self.peek((profile.scheduler_name, key)) if key is not None else None
        if kept is not None:
            pod.take_arithmetic(kept.arithmetic)

    def find(self, profile: Profile, pod: PodInfo, view: View) -> Template:
        """The pod's template, brought up to date with the cluster. Sets the pod's arithmetic from it.

        Raises PluginError.
        """
        key = template_key(pod)
        kept = self._own((profile.scheduler_name, key)) if key is not None else None
        versions = view.versions
        if kept is not None:
            pod.take_arithmetic(kept.arithmetic)
            if kept.versions == versions:
                return kept
        stamps = tuple([plugin.fragment_stamp(view) for plugin in profile.cluster_fragment_plugins])
        if kept is not None and kept.stamps == stamps and None not in stamps:
            kept.versions = versions
            return kept
        made = self._made(profile, pod, view, kept, stamps)
        if None not in stamps:
            made.versions = versions
        if key is not None:
            self._keep((profile.scheduler_name, key), made)
        return made

    def _own(self, key: tuple[str, Hashable]) -> Template | None:
        """What is known here, or a copy of what is known below."""
        kept = self._templates.get(key)
        if kept is None and (known := self.peek(key)) is not None:
            kept = replace(known)
            self._keep(key, kept)
        return kept

    def _made(self, profile: Profile, pod: PodInfo, view: View, kept: Template | None, stamps: Stamps) -> Template:
        if kept is None:
            fragments = {plugin.name: _fragment(plugin, pod, view) for plugin in profile.static_fragment_plugins}
            unconcerned = unconcerned_by(pod, profile)
            nbytes = TEMPLATE_BYTES + encoded_bytes(pod)
            number = self._number_of(profile, fragments, unconcerned, nbytes)
            known: Stamps = (None,) * len(stamps)
        else:
            fragments, unconcerned, nbytes = dict(kept.fragments), kept.unconcerned, kept.nbytes
            number, known = kept.number, kept.stamps
        moving = []
        for plugin, stamp, before in zip(profile.cluster_fragment_plugins, stamps, known, strict=True):
            if stamp is None or stamp != before:
                fragments[plugin.name] = _fragment(plugin, pod, view)
            moving.append(fragments[plugin.name])
        key = (profile.scheduler_name, number, tuple(moving))
        arithmetic = pod.arithmetic() if kept is None else kept.arithmetic
        return Template(number, key, fragments, unconcerned, arithmetic, stamps, (), nbytes)

    def _keep(self, key: tuple[str, Hashable], template: Template) -> None:
        before = self._templates.pop(key, None)
        self._bytes += template.nbytes - (before.nbytes if before is not None else 0)
        self._templates[key] = template
        while self._bytes > self._limit_bytes and len(self._templates) > 1:
            _, oldest = self._templates.popitem(last=False)
            self._bytes -= oldest.nbytes

    def _number_of(
        self, profile: Profile, fragments: dict[str, Hashable], unconcerned: frozenset[str], nbytes: int
    ) -> int:
        combination = (profile.scheduler_name, unconcerned, *fragments.values())
        try:
            found = self.number(combination)
        except TypeError as error:
            culprit = next((name for name, fragment in fragments.items() if not _is_hashable(fragment)), "")
            raise PluginError(culprit, "Fragment", error) from error
        if found is None:
            found = self._new_number()
            size = nbytes - TEMPLATE_BYTES + NUMBER_BYTES
            self._numbers[combination] = found, size
            self._number_bytes += size
            while 4 * self._number_bytes > self._limit_bytes and len(self._numbers) > 1:
                _, (_, size) = self._numbers.popitem(last=False)
                self._number_bytes -= size
        return found


def _fragment(plugin: Plugin, pod: PodInfo, view: View) -> Hashable:
    try:
        return plugin.fragment(pod, view)
    except Exception as error:
        raise PluginError(plugin.name, "Fragment", error) from error


def unconcerned_by(pod: PodInfo, profile: Profile) -> frozenset[str]:
    """The names of the plugins that the pod does not concern. Raises PluginError."""
    return frozenset([plugin.name for plugin in profile.choosy_plugins if not _concerns(plugin, pod)])


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
