"""Deletion of objects: at once, after a grace period, or when their last finalizer is removed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from scheduler.simulate.apiserver import failures, kinds
from scheduler.simulate.apiserver.kinds import Kind
from scheduler.simulate.apiserver.store import Stored

Object = dict[str, Any]

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
_ORPHANED_BY_DEFAULT: Final = frozenset({kinds.JOBS.resource, kinds.REPLICATION_CONTROLLERS.resource})


class DeleteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The supported fields of meta/v1 DeleteOptions; None means that the client has not set it."""

    grace_seconds: int | None = None
    uid: str = ""
    resource_version: str = ""
    propagation: str = ""

    @staticmethod
    def read(body: Object, query: dict[str, str]) -> DeleteOptions:
        """The options of a request; the body takes precedence over the query."""
        preconditions = body.get("preconditions") or {}
        grace = body.get("gracePeriodSeconds")
        if grace is None and "gracePeriodSeconds" in query:
            grace = int(query["gracePeriodSeconds"])
        propagation = body.get("propagationPolicy") or query.get("propagationPolicy") or ""
        if not propagation and body.get("orphanDependents") is not None:
            propagation = "Orphan" if body["orphanDependents"] else "Background"
        return DeleteOptions(
            grace_seconds=grace,
            uid=preconditions.get("uid") or "",
            resource_version=preconditions.get("resourceVersion") or "",
            propagation=propagation,
        )

    def check(self, kind: Kind, current: Stored) -> None:
        """Raises 409 if a precondition names another object, or another version of it."""
        metadata = current.object["metadata"]
        if self.uid and self.uid != metadata["uid"]:
            raise _refused(
                kind, current.name,
                f"the UID in the precondition ({self.uid}) does not match the UID in record ({metadata['uid']}). "
                "The object might have been deleted and then recreated",
            )  # fmt: skip
        version = metadata["resourceVersion"]
        if self.resource_version and self.resource_version != version:
            raise _refused(
                kind, current.name,
                f"the ResourceVersion in the precondition ({self.resource_version}) does not match the ResourceVersion "
                f"in record ({version}). The object might have been modified",
            )  # fmt: skip


def _refused(kind: Kind, name: str, why: str) -> failures.Failure:
    shown = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    details = {"name": name, **({"group": kind.group} if kind.group else {}), "kind": kind.kind}
    return failures.Failure(409, "Conflict", f'Operation cannot be fulfilled on {shown} "{name}": {why}', details)


def marked(kind: Kind, obj: Object, options: DeleteOptions, now: datetime) -> Object | None:
    """The object marked for deletion; None if it is to be removed at once.

    Pods on a node get a grace period, ended by the kubelet; objects with finalizers wait for them.
    """
    metadata = obj["metadata"]
    finalizers = _finalizers(kind, metadata, options)
    if kind is kinds.NAMESPACES:
        return _terminating_namespace(obj, finalizers, now)
    grace = _grace(kind, obj, options)
    if "deletionTimestamp" in metadata:
        return _hastened(obj, grace)
    if not finalizers and grace == 0 and kind is not kinds.PODS:
        return None
    fresh = {
        **metadata,
        "deletionTimestamp": shown(now + timedelta(seconds=grace)),
        "deletionGracePeriodSeconds": grace,
    }
    if finalizers:
        fresh["finalizers"] = finalizers
    if "generation" in metadata:
        fresh["generation"] = metadata["generation"] + 1
    return {**obj, "metadata": fresh}


def _hastened(obj: Object, grace: int) -> Object:
    """The object with a shorter grace period; a second deletion has an effect only if it shortens the period."""
    metadata = obj["metadata"]
    before = metadata.get("deletionGracePeriodSeconds", 0)
    if grace >= before:
        return obj
    moment = datetime.fromisoformat(metadata["deletionTimestamp"]) - timedelta(seconds=before - grace)
    return {**obj, "metadata": {**metadata, "deletionTimestamp": shown(moment), "deletionGracePeriodSeconds": grace}}


def finished(kind: Kind, metadata: Object, obj: Object) -> bool:
    """Whether a deleted object can be removed."""
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    if kind is kinds.NAMESPACES:
        return not (obj.get("spec") or {}).get("finalizers")
    return not metadata.get("deletionGracePeriodSeconds")


def _grace(kind: Kind, obj: Object, options: DeleteOptions) -> int:
    if kind is not kinds.PODS:
        return 0
    spec = obj.get("spec") or {}
    if not spec.get("nodeName") or obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    grace = options.grace_seconds
    if grace is None:
        grace = int(spec.get("terminationGracePeriodSeconds", 30))
    return 1 if grace < 0 else grace


def _finalizers(kind: Kind, metadata: Object, options: DeleteOptions) -> list[str]:
    kept = [one for one in metadata.get("finalizers") or () if one not in (FOREGROUND, ORPHAN)]
    propagation = options.propagation or ("Orphan" if kind.resource in _ORPHANED_BY_DEFAULT else "")
    if propagation == "Foreground":
        return [*kept, FOREGROUND]
    return [*kept, ORPHAN] if propagation == "Orphan" else kept


def _terminating_namespace(obj: Object, finalizers: list[str], now: datetime) -> Object:
    metadata = obj["metadata"]
    if "deletionTimestamp" in metadata:
        return obj
    fresh = {**metadata, "deletionTimestamp": shown(now)}
    if finalizers:
        fresh["finalizers"] = finalizers
    return {**obj, "metadata": fresh, "status": {**obj.get("status", {}), "phase": "Terminating"}}


def shown(moment: datetime) -> str:
    """A time in the format of metadata: whole seconds, UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
