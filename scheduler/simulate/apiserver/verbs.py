"""Serves one request: reads the query, the body and the Accept header, and calls the registry.

Nothing here awaits: a request is served in one step of the event loop, so no two requests interleave.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from scheduler.config.documents import read_value
from scheduler.errors import ConfigurationError
from scheduler.simulate.apiserver import applying, failures, kinds, patches, pods, protobuf, reviews, scale, tables
from scheduler.simulate.apiserver.deletion import DeleteOptions
from scheduler.simulate.apiserver.listing import Listings, ListRequest
from scheduler.simulate.apiserver.registry import Registry, WriteOptions, decode_body, require_json, shown_object
from scheduler.simulate.apiserver.routing import Target
from scheduler.simulate.apiserver.selectors import Matcher, matcher
from scheduler.simulate.apiserver.store import Object, Stored
from scheduler.simulate.apiserver.watching import WatchRequest, list_item, typed_body

_encode = msgspec.json.Encoder().encode
_DEFAULT_WATCH_SECONDS: Final = 1800.0
_TRUE: Final = ("1", "true", "True")
_SHAPES: Final = {"as=Table": "table", "as=PartialObjectMetadata": "partial", "as=PartialObjectMetadataList": "partial"}


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP request with its body and the headers that are used here."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes = b""
    content_type: str = ""
    accept: str = ""
    user_agent: str = ""

    def flag(self, name: str) -> bool:
        return self.query.get(name, "") in _TRUE

    def number(self, name: str) -> int:
        text = self.query.get(name) or "0"
        if not text.lstrip("-").isdigit():
            raise failures.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
        return int(text)

    @property
    def options(self) -> WriteOptions:
        """The options of a write. A client that names no field manager is known by its program's name."""
        manager = self.query.get("fieldManager") or self.user_agent.partition("/")[0] or "unknown"
        return WriteOptions(dry_run="dryRun" in self.query, manager=manager)

    @property
    def shape(self) -> str:
        """`plain`, `table` or `partial`: the first acceptable format that this server supports; raises 406 if none."""
        wishes = [one.strip() for one in self.accept.split(",") if one.strip()] or ["*/*"]
        for wish in wishes:
            media, *parameters = [part.strip() for part in wish.split(";")]
            if media not in ("application/json", "*/*", "application/*"):
                continue
            shapes = [part for part in parameters if part.startswith("as=")]
            if not shapes:
                return "plain"
            if shapes[0] in _SHAPES:
                return _SHAPES[shapes[0]]
        raise failures.Failure(
            406, "NotAcceptable", "406: Not Acceptable\n\nAvailable representations: application/json", {}
        )


class Answer(msgspec.Struct, frozen=True):
    """A complete response."""

    code: int
    body: bytes


class Watching(msgspec.Struct, frozen=True):
    """A response that is a watch; `render` is None for plain lines."""

    request: WatchRequest
    render: Callable[[Stored], Object] | None


class Verbs:
    """The HTTP verbs on a registry."""

    def __init__(self, registry: Registry, listings: Listings, token: str | None) -> None:
        self._registry = registry
        self._listings = listings
        self._token = token

    def serve(self, target: Target, request: Request) -> Answer | Watching:
        """Serves a request. Raises `Failure` for refusals."""
        if not target.kind.stored:
            return self._review(target, request)
        if target.subresource in ("binding", "eviction", "scale"):
            return self._subresource(target, request)
        if not target.name:
            return self._on_collection(target, request)
        match request.method:
            case "GET" if request.flag("watch"):
                named = {**request.query, "fieldSelector": f"metadata.name={target.name}"}
                return self._watch(target, msgspec.structs.replace(request, query=named))
            case "GET":
                stored = self._registry.stored(target.kind, target.space, target.name)
                return self._object(target.kind, stored, request)
            case "PUT":
                body = _body(target.kind, request)
                stored, new = self._registry.update(
                    target.kind, target.space, target.name, body, target.subresource, request.options
                )
                return self._object(target.kind, stored, request, 201 if new else 200)
            case "PATCH":
                return self._patch(target, request)
            case "DELETE" if not target.subresource:
                return self._delete(target, request)
        raise failures.method_not_allowed()

    def _on_collection(self, target: Target, request: Request) -> Answer | Watching:
        match request.method:
            case "GET":
                return self._watch(target, request) if request.flag("watch") else self._list(target, request)
            case "POST" if "create" in target.kind.verbs and (
                target.namespace is not None or not target.kind.namespaced
            ):
                shape = request.shape
                body = _body(target.kind, request)
                stored = self._registry.create(target.kind, target.space, body, request.options)
                return self._object(target.kind, stored, request, 201, shape)
            case "DELETE" if "deletecollection" in target.kind.verbs:
                return self._delete_collection(target, request)
        raise failures.method_not_allowed()

    # -- reads ----------------------------------------------------------------------------------------------------

    def _list(self, target: Target, request: Request) -> Answer:
        kind, shape = target.kind, request.shape
        labels, fields = request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
        text = request.query.get("resourceVersion") or ""
        if text and not text.isdigit():
            raise failures.bad_request(
                f'invalid resource version: resourceVersion: Invalid value: "{text}": '
                f'strconv.ParseUint: parsing "{text}": invalid syntax'
            )
        page = self._listings.page(
            ListRequest(
                kind=kind, namespace=target.namespace, matches=matcher(labels, fields, kind),
                selected=f"{labels}|{fields}", limit=request.number("limit"), token=request.query.get("continue", ""),
                revision=int(text) if text else None, exact=request.query.get("resourceVersionMatch") == "Exact",
            )
        )  # fmt: skip
        metadata = page.metadata()
        if shape == "table":
            objects = [shown_object(kind, one) for one in page.items]
            return Answer(200, _encode(tables.table(kind, objects, metadata, self._registry.now())))
        if shape == "partial":
            rows = [tables.partial(one.object) for one in page.items]
            head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
            return Answer(200, _encode({**head, "items": rows}))
        head = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata}
        items = b",".join([list_item(kind, one) for one in page.items])
        return Answer(200, b'%b,"items":[%b]}' % (_encode(head)[:-1], items))

    def _watch(self, target: Target, request: Request) -> Watching:
        kind, shape, query = target.kind, request.shape, request.query
        text = query.get("resourceVersion") or "0"
        if not text.isdigit():
            why = f'strconv.ParseUint: parsing "{text}": invalid syntax'
            raise failures.Failure(500, "", f'resourceVersion: Invalid value: "{text}": {why}')
        initial = query.get("sendInitialEvents")
        if initial is not None and query.get("resourceVersionMatch") != "NotOlderThan":
            raise _needs_match()
        revision = None if initial in _TRUE or (text == "0" and initial is None) else int(text)
        found = WatchRequest(
            kind=kind,
            namespace=target.namespace,
            matches=matcher(query.get("labelSelector", ""), query.get("fieldSelector", ""), kind),
            revision=revision,
            bookmarks=request.flag("allowWatchBookmarks"),
            timeout_seconds=float(request.number("timeoutSeconds")) or _DEFAULT_WATCH_SECONDS,
        )
        return Watching(found, self._rendering(kind, shape))

    def _rendering(self, kind: kinds.Kind, shape: str) -> Callable[[Stored], Object] | None:
        if shape == "plain":
            return None
        if shape == "partial":
            return lambda stored: tables.partial(stored.object)
        headed = True

        def row(stored: Stored) -> Object:
            nonlocal headed
            metadata = {"resourceVersion": stored.object["metadata"]["resourceVersion"]}
            objects = [shown_object(kind, stored)] if stored.name else []
            shown = tables.table(kind, objects, metadata, self._registry.now(), headed=headed)
            headed = False
            return shown

        return row

    def _object(
        self, kind: kinds.Kind, stored: Stored, request: Request, code: int = 200, shape: str | None = None
    ) -> Answer:
        match shape or request.shape:
            case "table":
                metadata = {"resourceVersion": stored.object["metadata"].get("resourceVersion", "")}
                shown = tables.table(kind, [shown_object(kind, stored)], metadata, self._registry.now())
                return Answer(code, _encode(shown))
            case "partial":
                return Answer(code, _encode(tables.partial(stored.object)))
        return Answer(code, typed_body(kind, stored))

    # -- writes ---------------------------------------------------------------------------------------------------

    def _patch(self, target: Target, request: Request) -> Answer:
        kind, space, name = target.kind, target.space, target.name
        if _media(request) == patches.APPLY_PATCH:
            wanted = applying.Applied(
                _yaml(request.body), request.query.get("fieldManager", ""), request.flag("force"), target.subresource
            )
            stored, new = applying.apply(
                self._registry, kind, space, name, wanted, dry_run=request.options.dry_run
            )  # fmt: skip
            return self._object(kind, stored, request, 201 if new else 200)
        content_type, patch = _patch_body(request)
        options = request.options
        stored = self._registry.patch(kind, space, name, content_type, patch, target.subresource, options)
        return self._object(kind, stored, request)

    def _delete(self, target: Target, request: Request) -> Answer:
        options = _delete_options(request)
        kind, name = target.kind, target.name
        stored, gone = self._registry.delete(kind, target.space, name, options, dry_run=request.options.dry_run)
        if not gone or kind.returns_deleted:
            return self._object(kind, stored, request)
        details = {"name": name, **({"group": kind.group} if kind.group else {}), "kind": kind.plural}
        details["uid"] = stored.object["metadata"]["uid"]
        return Answer(200, _encode(failures.success(details=details)))

    def _delete_collection(self, target: Target, request: Request) -> Answer:
        kind, query = target.kind, request.query
        matches: Matcher | None = matcher(query.get("labelSelector", ""), query.get("fieldSelector", ""), kind)
        doomed = self._registry.delete_collection(kind, target.namespace, _delete_options(request), matches)
        metadata = {"resourceVersion": str(self._registry.store.revision)}
        head = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata}
        items = b",".join([list_item(kind, one) for one in doomed])
        return Answer(200, b'%b,"items":[%b]}' % (_encode(head)[:-1], items))

    def _subresource(self, target: Target, request: Request) -> Answer:
        registry, kind, space, name = self._registry, target.kind, target.space, target.name
        match target.subresource, request.method:
            case "binding", "POST":
                pods.bind(registry, space, name, _body(kinds.BINDINGS, request))
                return Answer(201, _encode(failures.success(201)))
            case "eviction", "POST":
                body = _json(request.body)
                pods.evict(registry, space, name, body if isinstance(body, dict) else {})
                return Answer(201, _encode(failures.success(201)))
            case "scale", "GET":
                return Answer(200, _encode(scale.scale_of(kind, registry.stored(kind, space, name).object)))
            case "scale", "PUT":
                body = _json(request.body)
                return Answer(200, _encode(scale.put_scale(registry, kind, space, name, body, request.options)))
            case "scale", "PATCH":
                content_type, patch = _patch_body(request)
                scaled = scale.patch_scale(registry, kind, space, name, content_type, patch, request.options)
                return Answer(200, _encode(scaled))
        raise failures.method_not_allowed()

    def _review(self, target: Target, request: Request) -> Answer:
        kind = target.kind
        if request.method == "POST" and not target.name and kind is kinds.BINDINGS:
            body = _body(kind, request)
            name = str((body.get("metadata") or {}).get("name") or "")
            pods.bind(self._registry, target.space, name, body)
            return Answer(201, _encode(failures.success(201)))
        if request.method == "POST" and not target.name:
            return Answer(201, _encode(reviews.answer(kind, _body(kind, request), self._token)))
        raise failures.method_not_allowed()


def _body(kind: kinds.Kind, request: Request) -> Object:
    if _media(request) == protobuf.MEDIA_TYPE and kind in protobuf.READABLE:
        return protobuf.decode(kind, request.body)
    require_json(request.content_type)
    return decode_body(kind, request.body)


def _json(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        raise failures.bad_request(f"couldn't get version/kind; json parse error: {error}") from error


def _yaml(raw: bytes) -> Object:
    try:
        document = read_value(raw)
    except ConfigurationError as error:
        raise failures.bad_request(f"error decoding YAML: {error}") from error
    if not isinstance(document, dict):
        raise failures.bad_request("error decoding YAML: expected an object")
    return document


def _media(request: Request) -> str:
    return request.content_type.partition(";")[0].strip()


def _patch_body(request: Request) -> tuple[str, Any]:
    content_type = _media(request)
    if content_type not in patches.PATCH_TYPES:
        raise failures.Failure(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    return content_type, _json(request.body)


def _delete_options(request: Request) -> DeleteOptions:
    body = _json(request.body) if request.body else {}
    return DeleteOptions.read(body if isinstance(body, dict) else {}, request.query)


def _needs_match() -> failures.Failure:
    cause = {
        "reason": "FieldValueForbidden",
        "message": "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        "field": "resourceVersionMatch",
    }
    text = f'ListOptions.meta.k8s.io "" is invalid: {cause["field"]}: {cause["message"]}'
    details = {"group": "meta.k8s.io", "kind": "ListOptions", "causes": [cause]}
    return failures.Failure(422, "Invalid", text, details)
