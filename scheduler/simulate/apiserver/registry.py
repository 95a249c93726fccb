"""The verbs on stored objects (create, update, patch, delete) with the API server's rules.

Both the HTTP server and the simulated components in the process (kubelet, controllers) use it.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from scheduler.simulate.apiserver import (
    admission,
    defaults,
    deletion,
    events,
    failures,
    kinds,
    patches,
    pod_groups,
    validation,
)
from scheduler.simulate.apiserver.deletion import DeleteOptions
from scheduler.simulate.apiserver.kinds import Kind
from scheduler.simulate.apiserver.selectors import Matcher
from scheduler.simulate.apiserver.store import Object, Store, Stored

_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_SYSTEM_FIELDS: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_NAMESPACES_AT_BIRTH: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_CONDITIONAL_ONLY: Final = frozenset(
    {
        kinds.LEASES.resource, kinds.BUDGETS.resource, kinds.CSI_NODES.resource, kinds.VOLUME_ATTACHMENTS.resource,
    }
)  # fmt: skip
"""Resources whose PUT must carry a resourceVersion."""

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


class Registry:
    """The verbs on one store. Objects are dictionaries; returned ones must not be mutated."""

    def __init__(self, store: Store, clock: Clock = utc_now) -> None:
        self.store = store
        self._clock = clock
        self._addresses = 0
        for name in _NAMESPACES_AT_BIRTH:
            self.create(kinds.NAMESPACES, "", {"metadata": {"name": name}})
        for name, value, description in admission.SYSTEM_PRIORITY_CLASSES:
            body = {"metadata": {"name": name}, "value": value, "description": description}
            self.create(kinds.PRIORITY_CLASSES, "", body)

    def now(self) -> datetime:
        return self._clock()

    def timestamp(self) -> str:
        """The present time in the format of metadata and conditions: whole seconds, UTC."""
        return deletion.shown(self._clock())

    def stored(self, kind: Kind, namespace: str, name: str) -> Stored:
        """The current version; raises 404."""
        found = self.store.collection(kind).get(namespace, name)
        if found is None:
            raise failures.not_found(kind, name)
        return found

    # -- create ---------------------------------------------------------------------------------------------------

    def create(self, kind: Kind, namespace: str, body: Object, *, dry_run: bool = False) -> Stored:
        """Creates an object, with defaults. Raises 400, 403, 404 (namespace), 409 (name exists) or 422 if invalid."""
        sent = body.get("metadata") or {}
        if sent.get("resourceVersion"):
            raise failures.Failure(500, "", "resourceVersion should not be set on objects to be created")
        require_same_namespace(kind, namespace, body)
        metadata = {**sent}
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + "".join(random.choices(_SUFFIX_LETTERS, k=5))
        name = str(metadata.get("name") or "")
        if kind.namespaced:
            admission.require_open_namespace(self.store, kind, namespace, name)
            metadata["namespace"] = namespace
        for field in (*_SYSTEM_FIELDS, "managedFields", "selfLink", "resourceVersion"):
            metadata.pop(field, None)
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = self.timestamp()
        if kind.generations:
            metadata["generation"] = 1
        obj = without_type({**body, "metadata": metadata})
        obj = self._admitted(kind, obj)
        validation.check_new(kind, obj)
        if self.store.collection(kind).get(namespace, name) is not None:
            raise failures.already_exists(kind, name)
        obj["metadata"] = {**obj["metadata"]}
        return Stored(namespace, name, obj, 0) if dry_run else self.store.put(kind, namespace, name, obj)

    def _admitted(self, kind: Kind, obj: Object) -> Object:
        if kind.where == kinds.CORE_EVENTS.where:
            return events.to_core(obj)
        if not obj["metadata"].get("name"):
            return defaults.fill(kind, obj) if kind is kinds.PODS else obj
        obj = defaults.status_at_birth(kind, defaults.fill(kind, obj))
        if kind is kinds.PODS:
            obj = admission.admit_pod(self.store, obj, self.timestamp())
        elif kind is kinds.POD_GROUPS:
            obj = pod_groups.admit(self.store, obj)
        elif kind is kinds.SERVICES:
            obj = self._with_cluster_ip(obj)
        return obj

    def _with_cluster_ip(self, service: Object) -> Object:
        spec = service["spec"]
        if spec["type"] == "ExternalName" or spec.get("clusterIP"):
            return service
        self._addresses += 1
        address = f"10.96.{self._addresses // 256 % 256}.{self._addresses % 256}"
        return {**service, "spec": {**spec, "clusterIP": address, "clusterIPs": [address]}}

    # -- update ---------------------------------------------------------------------------------------------------

    def update(
        self, kind: Kind, namespace: str, name: str, body: Object, subresource: str = "", *, dry_run: bool = False
    ) -> tuple[Stored, bool]:
        """Replaces an object, or the part of it that a subresource owns; the second value is whether it was created."""
        sent = body.get("metadata") or {}
        if sent.get("name") and sent["name"] != name:
            text = f"the name of the object ({sent['name']}) does not match the name on the URL ({name})"
            raise failures.bad_request(text)
        require_same_namespace(kind, namespace, body)
        current = self.store.collection(kind).get(namespace, name)
        if current is None:
            if kind.upserts and not sent.get("resourceVersion") and not subresource:
                named = {**body, "metadata": {**sent, "name": name}}
                return self.create(kind, namespace, named, dry_run=dry_run), True
            raise failures.not_found(kind, name)
        if sent.get("uid") and sent["uid"] != current.object["metadata"]["uid"]:
            raise uid_conflict(kind, current, sent["uid"])
        if not sent.get("resourceVersion") and kind.resource in _CONDITIONAL_ONLY:
            raise _version_needed(kind, name)
        return self._replace(kind, current, without_type(body), subresource, dry_run=dry_run), False

    def patch(
        self, kind: Kind, namespace: str, name: str, content_type: str, patch: Any, subresource: str = "",
        *, dry_run: bool = False,
    ) -> Stored:  # fmt: skip
        """Applies a patch of one of `patches.PATCH_TYPES` to an object (or the part that a subresource owns)."""
        current = self.stored(kind, namespace, name)
        shown = shown_object(kind, current)
        patched = patches.apply(content_type, shown, patch)
        if not isinstance(patched.get("metadata"), dict):
            raise failures.invalid(kind, name, [failures.required("metadata.name", "name or generateName is required")])
        uid = patched["metadata"].get("uid")
        if uid and uid != current.object["metadata"]["uid"]:
            cause = failures.invalid_value("metadata.uid", uid, "field is immutable")
            raise failures.invalid(kind, name, [cause])
        if patched["metadata"].get("name") != name:
            text = f"the name of the object ({patched['metadata'].get('name', '')}) does not match the name on the URL"
            raise failures.bad_request(f"{text} ({name})")
        return self._replace(kind, current, without_type(patched), subresource, dry_run=dry_run)

    def change(self, kind: Kind, namespace: str, name: str, edit: Callable[[Object], Object]) -> Stored | None:
        """For simulated components: stores `edit(object)` without checks; None if the object is gone."""
        current = self.store.collection(kind).get(namespace, name)
        if current is None:
            return None
        return self._commit(kind, current, edit(current.object), dry_run=False)

    def _replace(self, kind: Kind, current: Stored, body: Object, subresource: str, *, dry_run: bool) -> Stored:
        old = current.object
        version = (body.get("metadata") or {}).get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise failures.modified(kind, current.name)
        if kind.where == kinds.CORE_EVENTS.where:
            body = events.to_core(body)
        metadata = self._kept_metadata(kind, current, body.get("metadata") or {})
        if subresource in ("status", "finalize"):
            new = {**old, "metadata": metadata}
            part = "status" if subresource == "status" else "spec"
            if part in body:
                new[part] = body[part]
            validation.check_status(kind, old, new)
        else:
            new = defaults.fill(kind, {**body, "metadata": metadata})
            if kind is kinds.PODS:
                new["spec"] = defaults.eviction_tolerations(new["spec"])
            if "status" in kind.subresources:
                new.pop("status", None)
                if "status" in old:
                    new["status"] = old["status"]
            validation.check_update(kind, old, new)
            if kind.generations and _content(old) != _content(new):
                new["metadata"] = {**new["metadata"], "generation": old["metadata"].get("generation", 0) + 1}
        return self._commit(kind, current, new, dry_run=dry_run)

    def _kept_metadata(self, kind: Kind, current: Stored, sent: Object) -> Object:
        """The metadata of an update: labels, annotations, owners and finalizers of the request, the rest unchanged."""
        old = current.object["metadata"]
        metadata = {key: value for key, value in sent.items() if value is not None and key != "managedFields"}
        metadata["name"] = current.name
        metadata["resourceVersion"] = old["resourceVersion"]
        if kind.namespaced:
            metadata["namespace"] = current.namespace
        for field in (*_SYSTEM_FIELDS, "generateName"):
            if field in old:
                metadata[field] = old[field]
            else:
                metadata.pop(field, None)
        for field in ("finalizers", "ownerReferences", "labels", "annotations"):
            if not metadata.get(field):
                metadata.pop(field, None)
        if "deletionTimestamp" in old:
            added = [one for one in metadata.get("finalizers", []) if one not in old.get("finalizers", [])]
            if added:
                listed = ", ".join(f'"{one}"' for one in added)
                text = "no new finalizers can be added if the object is being deleted, found new finalizers "
                cause = failures.forbidden_value("metadata.finalizers", f"{text}[]string{{{listed}}}")
                raise failures.invalid(kind, current.name, [cause])
        return metadata

    def _commit(self, kind: Kind, current: Stored, new: Object, *, dry_run: bool) -> Stored:
        """Stores the new state; does nothing if it is unchanged, and removes the object with its last finalizer."""
        old = current.object
        if new is old or new == old:
            return current
        metadata = new["metadata"] = {**new["metadata"], "resourceVersion": old["metadata"]["resourceVersion"]}
        if dry_run:
            return Stored(current.namespace, current.name, new, current.revision)
        if deletion.finished(kind, metadata, new):
            self.store.remove(kind, current.namespace, current.name, new)
            return Stored(current.namespace, current.name, new, current.revision)
        return self.store.put(kind, current.namespace, current.name, new)

    # -- delete ---------------------------------------------------------------------------------------------------

    def delete(
        self, kind: Kind, namespace: str, name: str, options: DeleteOptions | None = None, *, dry_run: bool = False
    ) -> tuple[Stored, bool]:
        """Deletes an object or marks it; returns its last state, and whether it is gone already."""
        options = options or DeleteOptions()
        current = self.stored(kind, namespace, name)
        options.check(kind, current)
        marked = deletion.marked(kind, current.object, options, self._clock())
        if dry_run:
            return current, marked is None
        if marked is None:
            return self.store.remove(kind, namespace, name), True
        if deletion.finished(kind, marked["metadata"], marked):
            removed = self.store.remove(kind, namespace, name, marked)
            return removed, True
        if marked == current.object:
            return current, False
        return self.store.put(kind, namespace, name, {**marked, "metadata": {**marked["metadata"]}}), False

    def delete_collection(
        self, kind: Kind, namespace: str | None, options: DeleteOptions, matches: Matcher | None
    ) -> list[Stored]:
        """Deletes all matching objects; returns their last states."""
        doomed = [one for one in self.store.collection(kind).every(namespace) if matches is None or matches(one.object)]
        for one in doomed:
            self.delete(kind, one.namespace, one.name, options)
        return doomed


def without_type(body: Object) -> Object:
    return {key: value for key, value in body.items() if key not in ("kind", "apiVersion")}


def shown_object(kind: Kind, stored: Stored) -> Object:
    """The object in the form of this resource, with kind and API version."""
    obj = events.from_core(stored.object) if kind is kinds.EVENTS else stored.object
    return {"kind": kind.kind, "apiVersion": kind.api_version, **obj}


def require_same_namespace(kind: Kind, namespace: str, body: Object) -> None:
    sent = (body.get("metadata") or {}).get("namespace")
    if kind.namespaced and sent and sent != namespace:
        text = "the namespace of the provided object does not match the namespace sent on the request"
        raise failures.bad_request(text)


def uid_conflict(kind: Kind, current: Stored, wanted: str) -> failures.Failure:
    """The 409 for a request whose body names another object of that name."""
    key = "/".join(part for part in ("/registry", kind.plural, current.namespace, current.name) if part)
    why = (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition "
        f"failed: UID in precondition: {wanted}, UID in object meta: {current.object['metadata']['uid']}"
    )
    return failures.conflict(kind, current.name, why)


def _version_needed(kind: Kind, name: str) -> failures.Failure:
    cause = failures.invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
    refused = failures.invalid(kind, name, [cause])
    details = {**(refused.details or {}), "kind": kind.plural}
    text = f'{kind.resource} "{name}" is invalid: {cause.field}: {cause.message}'
    return failures.Failure(422, "Invalid", text, details)


def _content(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}


def require_json(content_type: str) -> None:
    """Raises 415 for other content than JSON; clients that prefer protobuf then send JSON."""
    media = content_type.partition(";")[0].strip()
    if media not in ("", "application/json", "*/*"):
        text = "the body of the request was in an unknown format - accepted media types include: application/json"
        raise failures.Failure(415, "UnsupportedMediaType", text)


def decode_body(kind: Kind, raw: bytes) -> Object:
    """The object in a request's body; raises 400 if it is not JSON or of another kind."""
    try:
        body = msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        text = f"couldn't get version/kind; json parse error: {error}"
        raise failures.bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): {text}"
        ) from error
    if not isinstance(body, dict):
        raise failures.bad_request("couldn't get version/kind; json parse error: expected an object")
    for part in ("metadata", "spec", "status"):
        if not isinstance(body.get(part), dict | None):
            text = (
                f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: json: cannot unmarshal '
            )
            raise failures.bad_request(f"{text}into Go struct field {kind.kind}.{part}")
    sent = body.get("kind")
    if sent and sent != kind.kind:
        version = str(body.get("apiVersion", kind.version)).rpartition("/")[2]
        internal = f"{kind.group.partition('.')[0] or 'core'}.{kind.kind}"
        text = f'{sent} in version "{version}" cannot be handled as a {kind.kind}: '
        raise failures.bad_request(f"{text}converting ({version}.{sent}) to ({internal}): unknown conversion")
    return body
