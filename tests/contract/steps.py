"""A step of the conversation with an API server, and the bodies that several steps send."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"

CORE = "/api/v1"
NS = f"{CORE}/namespaces/{{{{ns}}}}"
PODS = f"{NS}/pods"
APPS = "/apis/apps/v1/namespaces/{{ns}}"
BUDGETS = "/apis/policy/v1/namespaces/{{ns}}/poddisruptionbudgets"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{{ns}}/leases"
EVENTS = "/apis/events.k8s.io/v1/namespaces/{{ns}}/events"


@dataclass(frozen=True)
class Step:
    """One request. `capture` takes values out of the answer: variable by dotted path.

    `events` makes it a watch that is read until that number of events has come. `only_code` compares the status code
    and the reason, where the text is the programming language's.
    """

    name: str
    method: str
    path: str
    body: Any = None
    content_type: str = JSON
    accept: str = JSON
    capture: dict[str, str] = field(default_factory=dict)
    events: int = 0
    only_code: bool = False

    def text(self) -> str | None:
        if self.body is None or isinstance(self.body, str):
            return self.body
        return json.dumps(self.body)


def get(name: str, path: str, **more: Any) -> Step:
    return Step(name, "GET", path, **more)


def post(name: str, path: str, body: Any, **more: Any) -> Step:
    return Step(name, "POST", path, body, **more)


def put(name: str, path: str, body: Any, **more: Any) -> Step:
    return Step(name, "PUT", path, body, **more)


def patch(name: str, path: str, body: Any, content_type: str = STRATEGIC, **more: Any) -> Step:
    return Step(name, "PATCH", path, body, content_type, **more)


def delete(name: str, path: str, body: Any = None, **more: Any) -> Step:
    return Step(name, "DELETE", path, body, **more)


def pod(name: str, *, labels: dict[str, str] | None = None, metadata: dict[str, Any] | None = None, **spec: Any) -> Any:
    meta: dict[str, Any] = {"name": name, **({"labels": labels} if labels else {}), **(metadata or {})}
    return {"metadata": meta, "spec": {"containers": [{"name": "c", "image": "i:1"}], **spec}}


def binding(name: str, node: str = "{{run}}-n1", **metadata: str) -> Any:
    return {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}


def workload(**spec: Any) -> Any:
    template = {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {
        "metadata": {"name": "w"},
        "spec": {"selector": {"matchLabels": {"app": "w"}}, "template": template, **spec},
    }
