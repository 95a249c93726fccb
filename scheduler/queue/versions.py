"""Whether an observed object says something new, compared with the version that is known."""

from __future__ import annotations

from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject


def is_overtaken(kind: Kind, old: ApiObject, new: ApiObject) -> bool:
    """Whether an observed claim is older than the known one, as learned from the answer to our write (dra.md §11)."""
    if kind is not Kind.RESOURCE_CLAIM or old.uid != new.uid:
        return False
    return 0 < new.version_number < old.version_number


def is_same_version(old: ApiObject, new: ApiObject) -> bool:
    """Whether an observed object is the known version, as in a list or a resync; never without a version."""
    version = new.metadata.resource_version
    return version != "" and version == old.metadata.resource_version and old.metadata.uid == new.metadata.uid
