"""What would help a waiting pod or group: single changes of it, of the cluster or of its priority, each proven by the
cycle, a pod's or a group's, on a fork of its own."""

from __future__ import annotations

from collections.abc import Generator

import msgspec

from scheduler.engine.engine import Engine
from scheduler.engine.explain import unasked_extenders
from scheduler.engine.questions.edits import WrongQuestion
from scheduler.engine.questions.group_helps import GroupSearch
from scheduler.engine.questions.helps import Bounds, Helps
from scheduler.engine.questions.names import shown
from scheduler.engine.questions.pod_helps import PodSearch
from scheduler.engine.questions.what_if import IsOver, never
from scheduler.messages.now import Now


def what_helps(engine: Engine, key: str, now: Now, is_over: IsOver = never) -> Generator[None, None, Helps]:
    """The changes with which a waiting pod (``namespace/name``) fits; yields after each trial. A pod of a group fits
    when the group does, and it with it. The name is a pod's, or that of a group if no pod has it.

    Raises WrongQuestion for a pod or a group that is not known or does not wait.
    """
    info, groups = engine.known_pods.get(key), engine.cache.groups
    bounds = Bounds(is_over)
    if info is None:
        if groups.get(key) is None and not groups.members(key).count:
            raise WrongQuestion(f"pod {shown(key)} is not known here")
        return (yield from GroupSearch(engine, key, now, bounds).run())
    if info.node_name:
        raise WrongQuestion(f"pod {shown(key)} is on a node")
    if (placed := engine.cache.placed(info.uid)) is not None:
        raise WrongQuestion(f"pod {shown(key)} is being bound to {shown(placed.node_name)}")
    if info.is_terminating:
        raise WrongQuestion(f"pod {shown(key)} is being deleted, and gets no node any more")
    group = groups.key_of(info)
    if group:
        found = yield from GroupSearch(engine, group, now, bounds, asked=info).run()
    else:
        found = yield from PodSearch(engine, info, now, bounds).run()
    return msgspec.structs.replace(found, unasked_extenders=unasked_extenders(engine, info.pod))
