"""Parts of pods and nodes in the API's JSON: containers, tolerations and taints, affinity terms, spread constraints.

Short forms: `toleration("dedicated=db:NoSchedule")`, `expression("disk In ssd,nvme")`. A field whose value is None is
left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Json = dict[str, Any]


def container_json(
    name: str = "main",
    *,
    image: str = "registry.test/app:v1",
    cpu: str | None = None,
    memory: str | None = None,
    requests: Mapping[str, str] | None = None,
    ports: Iterable[int | Json] = (),
    sidecar: bool = False,
    **fields: Any,
) -> Json:
    """A container. `sidecar`: an init container that goes on running. `fields` are in the API's own form."""
    asked = given(cpu=cpu, memory=memory) | dict(requests or {})
    return (
        given(
            name=name,
            image=image,
            resources={"requests": asked} if asked else None,
            ports=[{"hostPort": port, "containerPort": port} if isinstance(port, int) else port for port in ports]
            or None,
            restartPolicy="Always" if sidecar else None,
        )
        | fields
    )


def toleration(text: str) -> Json:
    """`key=value:Effect`, `key:Effect` (exists), `key` (exists, any effect), or `` (everything)."""
    rest, _, effect = text.partition(":")
    key, equals, value = rest.partition("=")
    if equals:
        return given(key=key, operator="Equal", value=value, effect=effect or None)
    return given(key=key or None, operator="Exists", effect=effect or None)


def pod_term(
    selector: Mapping[str, str] | Json | None,
    topology_key: str = "kubernetes.io/hostname",
    *,
    namespaces: Sequence[str] | None = None,
    namespace_selector: Json | None = None,
) -> Json:
    """A term of pod affinity. `selector`: labels, or a LabelSelector in the API's form."""
    return given(
        labelSelector=label_selector(selector) if selector is not None else None,
        topologyKey=topology_key,
        namespaces=list(namespaces) if namespaces is not None else None,
        namespaceSelector=namespace_selector,
    )


def affinity_json(
    *,
    node_required: Sequence[Json] | None = None,
    node_preferred: Sequence[tuple[int, Json]] = (),
    required: Sequence[Json] = (),
    preferred: Sequence[tuple[int, Json]] = (),
    anti_required: Sequence[Json] = (),
    anti_preferred: Sequence[tuple[int, Json]] = (),
) -> Json:
    """`spec.affinity`. Node terms as in `node_term`, pod terms as in `pod_term`; the preferred ones with weights."""
    return given(
        nodeAffinity=given(
            requiredDuringSchedulingIgnoredDuringExecution=(
                {"nodeSelectorTerms": list(node_required)} if node_required is not None else None
            ),
            preferredDuringSchedulingIgnoredDuringExecution=[
                {"weight": weight, "preference": term} for weight, term in node_preferred
            ]
            or None,
        )
        or None,
        podAffinity=_pod_affinity(required, preferred) or None,
        podAntiAffinity=_pod_affinity(anti_required, anti_preferred) or None,
    )


def node_term(*expressions: str | Json, fields: Sequence[str | Json] = ()) -> Json:
    """A term of node affinity; see `expression` for the short form of what is in it."""
    return given(
        matchExpressions=[expression(each) if isinstance(each, str) else each for each in expressions] or None,
        matchFields=[expression(each) if isinstance(each, str) else each for each in fields] or None,
    )


def expression(text: str) -> Json:
    """`disk In ssd,nvme`, `disk NotIn hdd`, `disk Exists`, `disk DoesNotExist`, `cores Gt 4`."""
    key, operator, *values = text.split(" ", 2)
    return given(key=key, operator=operator, values=values[0].split(",") if values else None)


def spread_json(
    topology_key: str,
    selector: Mapping[str, str] | Json | None = None,
    *,
    max_skew: int = 1,
    soft: bool = False,
    **fields: Any,
) -> Json:
    """A topology spread constraint. `fields` are in the API's own form, such as `minDomains=2`."""
    return (
        given(
            maxSkew=max_skew,
            topologyKey=topology_key,
            whenUnsatisfiable="ScheduleAnyway" if soft else "DoNotSchedule",
            labelSelector=label_selector(selector) if selector is not None else None,
        )
        | fields
    )


def label_selector(selector: Mapping[str, Any]) -> Json:
    """A LabelSelector: from labels, or as it is if it is one already."""
    if not selector or "matchLabels" in selector or "matchExpressions" in selector:
        return dict(selector)
    return {"matchLabels": dict(selector)}


def owner_json(kind: str, name: str, *, uid: str | None = None, api_version: str = "apps/v1") -> Json:
    """A controlling owner, for `pod(owner=...)`."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid or f"{kind.lower()}-{name}",
        "controller": True,
    }


def taint(text: str) -> Json:
    """`key=value:Effect` or `key:Effect`."""
    rest, _, effect = text.partition(":")
    key, _, value = rest.partition("=")
    return given(key=key, value=value or None, effect=effect or "NoSchedule")


def given(**fields: Any) -> Json:
    """The fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def _pod_affinity(required: Sequence[Json], preferred: Sequence[tuple[int, Json]]) -> Json:
    return given(
        requiredDuringSchedulingIgnoredDuringExecution=list(required) or None,
        preferredDuringSchedulingIgnoredDuringExecution=[
            {"weight": weight, "podAffinityTerm": term} for weight, term in preferred
        ]
        or None,
    )
