"""The conversation that the embedded API server and the real kube-apiserver have to agree on, request by request.

`{{ns}}` is the namespace of this run, `{{run}}` a prefix for names of objects outside namespaces; other `{{names}}`
are captured from earlier answers. Needs a server on which nothing else acts on these objects: no controllers, no
kubelets.
"""

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


NAMESPACE = (
    post("a namespace is active at once", f"{CORE}/namespaces", {"metadata": {"name": "{{ns}}"}}),
    get("and can be read", NS),
)

NODES = (
    post(
        "a node keeps the status it is created with", f"{CORE}/nodes",
        {"metadata": {"name": "{{run}}-n1", "labels": {"zone": "a", "run": "{{run}}"}},
         "status": {"capacity": {"cpu": "4", "pods": "10"}, "allocatable": {"cpu": "4", "pods": "10"}}},
        capture={"node_version": "metadata.resourceVersion"},
    ),
    post("a node without allocatable", f"{CORE}/nodes",
         {"metadata": {"name": "{{run}}-n2", "labels": {"zone": "b", "run": "{{run}}"}},
          "status": {"capacity": {"cpu": "2"}}}),
    patch("a taint list is replaced as a whole", f"{CORE}/nodes/{{{{run}}}}-n1",
          {"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}}),
    patch("again", f"{CORE}/nodes/{{{{run}}}}-n1", {"spec": {"taints": [{"key": "l", "effect": "NoExecute"}]}}),
    patch("spec changes are ignored by the status subresource", f"{CORE}/nodes/{{{{run}}}}-n1/status",
          {"spec": {"unschedulable": True},
           "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "r", "message": "m"}]}}),
    patch("conditions merge by type", f"{CORE}/nodes/{{{{run}}}}-n1/status",
          {"status": {"conditions": [
              {"type": "Ready", "status": "False"}, {"type": "DiskPressure", "status": "True"}]}}),
    patch("status changes are ignored by the resource itself", f"{CORE}/nodes/{{{{run}}}}-n1",
          {"spec": {"unschedulable": True}, "status": {"capacity": {"cpu": "99"}}}),
    get("nodes by label and unschedulable",
        f"{CORE}/nodes?labelSelector=run%3D{{{{run}}}}&fieldSelector=spec.unschedulable%3Dtrue"),
    get("nodes by set-based selector", f"{CORE}/nodes?labelSelector=run%3D{{{{run}}}}%2Czone+in+%28b%2Cc%29"),
    get("nodes by negative selector", f"{CORE}/nodes?labelSelector=run%3D{{{{run}}}}%2Czone+notin+%28b%29%2C%21absent"),
    get("nodes as a table", f"{CORE}/nodes?labelSelector=run%3D{{{{run}}}}", accept=TABLE),
)  # fmt: skip

POD_CREATION = (
    get("no pods yet", PODS, capture={"start": "metadata.resourceVersion"}),
    post("a plain pod gets its defaults", PODS, pod("plain", labels={"app": "a"}), capture={"plain": "metadata.uid"}),
    post("a name that is taken", PODS, pod("plain")),
    post("requests come from limits", PODS,
         pod("limited", containers=[{"name": "c", "image": "i", "ports": [{"containerPort": 80}],
                                     "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}])),
    post("a gated pod says why it waits", PODS, pod("gated", schedulingGates=[{"name": "x.y/z"}])),
    post("a generated name", PODS, {**pod(""), "metadata": {"generateName": "gen-", "labels": {"app": "gen"}}}),
    post("no name", PODS, {**pod(""), "metadata": {}}),
    post("a bad name", PODS, pod("A_")),
    post("no containers", PODS, {"metadata": {"name": "x"}, "spec": {}}),
    post("no image", PODS, {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c"}]}}),
    post("another namespace in the body", PODS, pod("x", metadata={"namespace": "other"})),
    post("a namespace that is not there", f"{CORE}/namespaces/{{{{run}}}}-none/pods", pod("x")),
    post("a resourceVersion", PODS, pod("x", metadata={"resourceVersion": "5"})),
    post("another kind in the body", PODS, {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "x"}}),
    post("no JSON", PODS, "garbage", only_code=True),
    post("dry run", f"{PODS}?dryRun=All", pod("dry")),
    get("leaves nothing", f"{PODS}/dry"),
    post("own tolerations stay in front", PODS, pod("tolerant", tolerations=[{"key": "k", "operator": "Exists"}])),
    post("tolerating everything leaves nothing to add", PODS, pod("stoic", tolerations=[{"operator": "Exists"}])),
    post("a host port follows the container port on the host's network", PODS,
         pod("host", hostNetwork=True, containers=[{"name": "c", "image": "i:1", "ports": [{"containerPort": 81}]}])),
)  # fmt: skip

PRIORITY = (
    post("a priority class", "/apis/scheduling.k8s.io/v1/priorityclasses",
         {"metadata": {"name": "{{run}}-high"}, "value": 1000, "preemptionPolicy": "Never"}),
    post("gives its value and policy to pods", PODS, pod("important", priorityClassName="{{run}}-high")),
    post("an unknown class", PODS, pod("x", priorityClassName="{{run}}-none")),
    post("a priority of one's own", PODS, pod("x", priority=5)),
    post("a system class", f"{PODS}", pod("critical", priorityClassName="system-node-critical")),
    patch("the value is fixed", "/apis/scheduling.k8s.io/v1/priorityclasses/{{run}}-high", {"value": 5}),
    delete("classes can go", "/apis/scheduling.k8s.io/v1/priorityclasses/{{run}}-high"),
)  # fmt: skip

BINDING = (
    post("another uid", f"{PODS}/plain/binding", binding("plain", uid="zz")),
    post("another name", f"{PODS}/plain/binding", binding("other")),
    post("no pod", f"{PODS}/none/binding", binding("none")),
    post("no node name", f"{PODS}/plain/binding", {"metadata": {"name": "plain"}, "target": {"kind": "Node"}}),
    post("no node", f"{PODS}/plain/binding", {"metadata": {"name": "plain"}, "target": {"kind": "Pod", "name": "x"}}),
    post("a gated pod", f"{PODS}/gated/binding", binding("gated")),
    patch("a nominated pod", f"{PODS}/plain/status", {"status": {"nominatedNodeName": "x", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}]}}),
    post("is bound", f"{PODS}/plain/binding", {**binding("plain", uid="{{plain}}"), "kind": "Binding",
                                               "apiVersion": "v1"}),
    get("scheduled and no longer nominated", f"{PODS}/plain"),
    post("only once", f"{PODS}/plain/binding", binding("plain")),
    post("labels and annotations of the binding are merged", f"{PODS}/limited/binding",
         {"metadata": {"name": "limited", "labels": {"b": "1"}, "annotations": {"c": "2"}},
          "target": {"name": "{{run}}-n2"}}),
    get("into the pod", f"{PODS}/limited"),
    post("to a node that is not there", f"{PODS}/tolerant/binding", binding("tolerant", "{{run}}-nowhere")),
    post("by the collection", f"{NS}/bindings", binding("stoic")),
    get("works too", f"{PODS}/stoic"),
)  # fmt: skip

STATUS = (
    patch("a condition", f"{PODS}/important/status", {"status": {"conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}]}}),
    patch("a second one", f"{PODS}/important/status", {"status": {"conditions": [
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "m"}]}}),
    patch("the order directive does not matter", f"{PODS}/important/status",
          {"status": {"$setElementOrder/conditions": [{"type": "PodScheduled"}, {"type": "DisruptionTarget"}],
                      "conditions": [{"type": "PodScheduled", "message": "changed"}], "nominatedNodeName": "n"}},
          capture={"before": "metadata.resourceVersion"}),
    patch("null clears", f"{PODS}/important/status", {"status": {"nominatedNodeName": None}}),
    patch("a condition is deleted by a directive", f"{PODS}/important/status",
          {"status": {"conditions": [{"$patch": "delete", "type": "DisruptionTarget"}]}}),
    patch("nothing changed, nothing written", f"{PODS}/important/status", {"status": {"phase": "Pending"}}),
    patch("an empty patch writes nothing", f"{PODS}/important/status", {}),
    patch("a stale version", f"{PODS}/important/status",
          {"metadata": {"resourceVersion": "{{before}}"}, "status": {"phase": "Running"}}),
    patch("another uid is refused", f"{PODS}/important/status",
          {"metadata": {"uid": "zz"}, "status": {"phase": "Running"}}),
    patch("the right uid is fine", f"{PODS}/plain/status",
          {"metadata": {"uid": "{{plain}}"}, "status": {"phase": "Running"}}),
    patch("the class of service is fixed", f"{PODS}/plain/status", {"status": {"qosClass": "Guaranteed"}}),
    patch("no such pod", f"{PODS}/none/status", {"status": {"phase": "Running"}}),
    patch("the spec is ignored", f"{PODS}/important/status", {"spec": {"nodeName": "x"}, "status": {"reason": "r"}}),
    patch("the status is ignored", f"{PODS}/important", {"metadata": {"labels": {"l": "1"}},
                                                         "status": {"reason": "other"}}),
)  # fmt: skip

PATCHES = (
    patch("merge patch", f"{PODS}/important", {"metadata": {"labels": {"m": "1", "l": None}}}, MERGE),
    patch("JSON patch", f"{PODS}/important", [{"op": "add", "path": "/metadata/labels/j~1p", "value": "1"},
                                              {"op": "test", "path": "/metadata/labels/m", "value": "1"},
                                              {"op": "remove", "path": "/metadata/labels/m"}], JSON_PATCH),
    patch("copy and move", f"{PODS}/important", [
        {"op": "copy", "from": "/metadata/labels/j~1p", "path": "/metadata/labels/k"},
        {"op": "move", "from": "/metadata/labels/k", "path": "/metadata/labels/o"}], JSON_PATCH),
    patch("a failing test", f"{PODS}/important",
          [{"op": "test", "path": "/metadata/labels/o", "value": "2"}], JSON_PATCH),
    patch("a missing path", f"{PODS}/important", [{"op": "remove", "path": "/metadata/labels/none"}], JSON_PATCH),
    patch("a missing parent", f"{PODS}/important", [{"op": "add", "path": "/metadata/no/x", "value": 1}], JSON_PATCH),
    patch("the node of a pod is fixed", f"{PODS}/important", {"spec": {"nodeName": "x"}}),
    patch("images may change", f"{PODS}/important", {"spec": {"containers": [{"name": "c", "image": "j:1"}]}}),
    patch("tolerations may be added", f"{PODS}/important", [
        {"op": "add", "path": "/spec/tolerations/-", "value": {"key": "n", "operator": "Exists"}}], JSON_PATCH),
    patch("but not taken away", f"{PODS}/important", [{"op": "remove", "path": "/spec/tolerations/2"}], JSON_PATCH),
    patch("gates may go", f"{PODS}/gated", {"spec": {"schedulingGates": None}}),
    patch("but not come", f"{PODS}/gated", {"spec": {"schedulingGates": [{"name": "x.y/z"}]}}),
    patch("another name", f"{PODS}/important", {"metadata": {"name": "y"}}, MERGE),
    patch("an unknown patch format", f"{PODS}/important", {}, "text/plain"),
    patch("a list where an object belongs", f"{PODS}/important", [], MERGE, only_code=True),
    patch("finalizers are a set", f"{PODS}/important", {"metadata": {"finalizers": ["a.b/c"]}}),
    patch("that grows", f"{PODS}/important", {"metadata": {"finalizers": ["a.b/d", "a.b/c"]}}),
    patch("and shrinks by a directive", f"{PODS}/important",
          {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/c"]}}),
)  # fmt: skip

LISTS = (
    get("by node", f"{PODS}?fieldSelector=spec.nodeName%3D{{{{run}}}}-n1"),
    get("not by node", f"{PODS}?fieldSelector=spec.nodeName%21%3D{{{{run}}}}-n1%2Cspec.nodeName%3D"),
    get("by scheduler and phase",
        f"{PODS}?fieldSelector=spec.schedulerName%3D%3Ddefault-scheduler%2Cstatus.phase%3DRunning"),
    get("by name", f"{PODS}?fieldSelector=metadata.name%3Dplain"),
    get("by name and namespace", f"{CORE}/pods?fieldSelector=metadata.name%3Dplain%2Cmetadata.namespace%3D{{{{ns}}}}"),
    get("by label", f"{PODS}?labelSelector=app"),
    get("by label value", f"{PODS}?labelSelector=app%21%3Da%2Capp"),
    get("a page", f"{PODS}?limit=3", capture={"more": "metadata.continue"}),
    delete("a deletion between the pages", f"{PODS}/tolerant?gracePeriodSeconds=0"),
    get("does not show in the next", f"{PODS}?limit=20&continue={{{{more}}}}"),
    get("a page with a selector", f"{PODS}?limit=1&labelSelector=app"),
    get("as a table", f"{PODS}?fieldSelector=metadata.name%3Dplain", accept=TABLE),
    get("one as a table", f"{PODS}/plain", accept=TABLE),
    get("a field that is no selector", f"{PODS}?fieldSelector=spec.foo%3Dx"),
    get("a selector that is none", f"{PODS}?labelSelector=a+inn+b"),
    get("a limit that is none", f"{PODS}?limit=x"),
    get("a token that is none", f"{PODS}?continue=xx", only_code=True),
    get("a version that is none", f"{PODS}?resourceVersion=xx"),
    get("a version from the future", f"{PODS}?resourceVersion=999999999999", only_code=True),
    get("any version", f"{PODS}?resourceVersion=0&labelSelector=app%3Da"),
    get("a version of the past or later", f"{PODS}?resourceVersion={{{{start}}}}&labelSelector=app%3Da"),
    get("no such kind", f"{CORE}/nopes"),
    get("no such group", "/apis/none.k8s.io/v1/things"),
    get("no such path", "/none"),
    get("no such object", f"{PODS}/none"),
    get("no such format", PODS, accept="foo/bar", only_code=True),
    put("no such method", PODS, {}),
)  # fmt: skip

WATCHES = (
    get("everything since the beginning",
        f"{PODS}?watch=1&resourceVersion={{{{start}}}}&timeoutSeconds=4", events=12),
    get("what matches a label",
        f"{PODS}?watch=1&resourceVersion={{{{start}}}}&labelSelector=l&timeoutSeconds=4", events=2),
    get("what is unbound",
        f"{PODS}?watch=1&resourceVersion={{{{start}}}}&fieldSelector=spec.nodeName%3D&timeoutSeconds=4", events=16),
    get("the present state", f"{PODS}?watch=true&labelSelector=app&timeoutSeconds=4", events=2),
    get("the present state and a bookmark", f"{PODS}?watch=true&labelSelector=app%3Da&timeoutSeconds=4"
        "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", events=2),
    get("sendInitialEvents needs its match", f"{PODS}?watch=1&sendInitialEvents=true&timeoutSeconds=1"),
    get("any version with bookmarks",
        f"{PODS}?watch=1&resourceVersion=0&allowWatchBookmarks=true&labelSelector=app%3Da&timeoutSeconds=1", events=9),
    get("no version", f"{PODS}?watch=1&resourceVersion=x&timeoutSeconds=1"),
    get("one object as a table", f"{PODS}?watch=1&fieldSelector=metadata.name%3Dplain&timeoutSeconds=4",
        accept=TABLE, events=1),
)  # fmt: skip

DELETION = (
    delete("no such pod", f"{PODS}/none"),
    delete("another uid", f"{PODS}/plain", {"preconditions": {"uid": "zz"}}),
    delete("another version", f"{PODS}/plain", {"preconditions": {"resourceVersion": "2"}}),
    delete("a pod on a node takes its time", f"{PODS}/plain", {"preconditions": {"uid": "{{plain}}"}}),
    get("meanwhile it is terminating", f"{PODS}/plain"),
    delete("again changes nothing", f"{PODS}/plain"),
    delete("sooner does", f"{PODS}/plain", {"gracePeriodSeconds": 5}),
    post("no binding now", f"{PODS}/plain/binding", binding("plain")),
    delete("at once", f"{PODS}/plain", {"gracePeriodSeconds": 0}),
    get("gone", f"{PODS}/plain"),
    delete("a pod without node goes at once", f"{PODS}/gated"),
    get("it is gone", f"{PODS}/gated"),
    delete("a pod with a finalizer stays", f"{PODS}/important"),
    patch("no finalizer can be added", f"{PODS}/important", {"metadata": {"finalizers": ["x.y/z"]}}),
    patch("without finalizers it goes", f"{PODS}/important", {"metadata": {"finalizers": None}}, MERGE),
    get("it went", f"{PODS}/important"),
    patch("a finished pod", f"{PODS}/stoic/status", {"status": {"phase": "Succeeded"}}),
    delete("needs no time", f"{PODS}/stoic"),
    delete("many at once", f"{PODS}?labelSelector=app%3Dgen"),
    delete("a node", f"{CORE}/nodes/{{{{run}}}}-n2"),
)  # fmt: skip

EVICTION = (
    post("a budget", BUDGETS, {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {
        "matchLabels": {"app": "e"}}}}, capture={"budget": "metadata.resourceVersion"}),
    post("a pod under it", PODS, pod("e1", labels={"app": "e"})),
    post("on a node", f"{PODS}/e1/binding", binding("e1")),
    patch("running", f"{PODS}/e1/status",
          {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}),
    post("while the budget is not computed", f"{PODS}/e1/eviction",
         {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "e1"}}),
    patch("a budget without room", f"{BUDGETS}/b/status", {"status": {
        "observedGeneration": 1, "expectedPods": 1, "desiredHealthy": 1, "currentHealthy": 1,
        "disruptionsAllowed": 0}}, MERGE),
    post("forbids it", f"{PODS}/e1/eviction", {"metadata": {"name": "e1"}}),
    patch("a budget with room", f"{BUDGETS}/b/status", {"status": {
        "observedGeneration": 1, "expectedPods": 2, "desiredHealthy": 1, "currentHealthy": 2,
        "disruptionsAllowed": 1}}, MERGE),
    post("another uid", f"{PODS}/e1/eviction",
         {"metadata": {"name": "e1"}, "deleteOptions": {"preconditions": {"uid": "zz"}}}),
    post("used it up", f"{PODS}/e1/eviction", {"metadata": {"name": "e1"}}),
    patch("room again", f"{BUDGETS}/b/status", {"status": {"disruptionsAllowed": 1, "disruptedPods": None}}, MERGE),
    post("allows it", f"{PODS}/e1/eviction", {"metadata": {"name": "e1"}}),
    get("and notes it", f"{BUDGETS}/b"),
    get("the pod is going", f"{PODS}/e1"),
    post("a pending pod", PODS, pod("e2", labels={"app": "e"})),
    post("may always be evicted", f"{PODS}/e2/eviction", {"metadata": {"name": "e2"}}),
    post("no such pod", f"{PODS}/none/eviction", {"metadata": {"name": "none"}}),
    put("a budget needs its version", f"{BUDGETS}/b", {"metadata": {"name": "b"}, "spec": {"minAvailable": 2}}),
    put("a stale version", f"{BUDGETS}/b",
        {"metadata": {"name": "b", "resourceVersion": "{{budget}}"}, "spec": {"minAvailable": 2}}),
    patch("a changed budget is a new generation", f"{BUDGETS}/b", {"spec": {"minAvailable": 2}}, MERGE),
    delete("a budget goes", f"{BUDGETS}/b"),
)  # fmt: skip

EVENT_OBJECTS = (
    post("an event", EVENTS, {"metadata": {"name": "e"}, "eventTime": "2026-01-02T03:04:05.123456Z",
                              "reportingController": "x.y/z", "reportingInstance": "i", "action": "Binding",
                              "reason": "Scheduled", "note": "hello", "type": "Normal",
                              "regarding": {"kind": "Pod", "namespace": "{{ns}}", "name": "b"}}),
    get("in the core group", f"{NS}/events/e"),
    patch("becomes a series", f"{EVENTS}/e", {
        "series": {"count": 2, "lastObservedTime": "2026-01-02T03:05:05.123456Z"}}),
    get("by what it is about", f"{NS}/events?fieldSelector=involvedObject.name%3Db%2Creason%3DScheduled"),
    get("by what it regards", f"{EVENTS}?fieldSelector=regarding.name%3Db"),
    post("a time is needed", EVENTS, {"metadata": {"name": "x"}, "reason": "r", "note": "n", "type": "Normal",
                                      "regarding": {"kind": "Pod", "namespace": "{{ns}}", "name": "b"}}),
    post("a core event", f"{NS}/events", {
        "metadata": {"name": "c"}, "reason": "r", "message": "m", "type": "Normal", "source": {"component": "me"},
        "involvedObject": {"kind": "Pod", "namespace": "{{ns}}", "name": "b"}, "count": 3,
        "firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:04:05Z"}),
    get("in the new group", f"{EVENTS}/c"),
)  # fmt: skip

LEASE = (
    post("a lease", LEASES, {"metadata": {"name": "l"}, "spec": {
        "holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-01-02T03:04:05.123456Z"}},
        capture={"lease": "metadata.resourceVersion"}),
    put("renewed", f"{LEASES}/l", {"metadata": {"name": "l", "resourceVersion": "{{lease}}"}, "spec": {
        "holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-01-02T03:04:06.123456Z"}}),
    put("by a client that is late", f"{LEASES}/l", {"metadata": {"name": "l", "resourceVersion": "{{lease}}"}, "spec": {
        "holderIdentity": "b", "leaseDurationSeconds": 15}}),
    put("a lease needs its version", f"{LEASES}/l", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "b"}}),
    put("created by PUT", f"{LEASES}/m", {"metadata": {"name": "m"}, "spec": {"holderIdentity": "a"}}),
    delete("a lease goes", f"{LEASES}/m"),
)  # fmt: skip

OBJECTS = (
    post("a config map", f"{NS}/configmaps",
         {"metadata": {"name": "c"}, "data": {"a": "1"}}, capture={"config": "metadata.resourceVersion"}),
    put("replaced", f"{NS}/configmaps/c", {"metadata": {"name": "c"}, "data": {"b": "2"}}),
    put("a stale version", f"{NS}/configmaps/c", {"metadata": {"name": "c", "resourceVersion": "{{config}}"}}),
    put("another name", f"{NS}/configmaps/c", {"metadata": {"name": "d"}}),
    put("another uid", f"{NS}/configmaps/c", {"metadata": {"name": "c", "uid": "zz"}}),
    put("not there", f"{NS}/configmaps/none", {"metadata": {"name": "none"}}),
    delete("a config map goes", f"{NS}/configmaps/c"),
    post("a deployment", f"{APPS}/deployments", workload()),
    get("its scale", f"{APPS}/deployments/w/scale"),
    put("scaled", f"{APPS}/deployments/w/scale", {"metadata": {"name": "w"}, "spec": {"replicas": 3}}),
    patch("scaled again", f"{APPS}/deployments/w/scale", {"spec": {"replicas": 4}}, MERGE),
    get("is a new generation", f"{APPS}/deployments/w"),
    delete("a deployment goes", f"{APPS}/deployments/w"),
    post("a replica set", f"{APPS}/replicasets", workload()),
    delete("waits for its dependents", f"{APPS}/replicasets/w", {"propagationPolicy": "Foreground"}),
    post("a stateful set", f"{APPS}/statefulsets", workload(serviceName="x")),
    delete("leaves its dependents", f"{APPS}/statefulsets/w?propagationPolicy=Orphan"),
    post("a daemon set", f"{APPS}/daemonsets", workload()),
    post("no selector", f"{APPS}/replicasets", {"metadata": {"name": "x"}, "spec": {"template": {
        "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}, only_code=True),
    post("a job", "/apis/batch/v1/namespaces/{{ns}}/jobs", {"metadata": {"name": "j"}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}),
    post("a replication controller", f"{NS}/replicationcontrollers", {"metadata": {"name": "r"}, "spec": {
        "replicas": 0, "selector": {"a": "b"}, "template": {"metadata": {"labels": {"a": "b"}},
                                                            "spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
    post("a service", f"{NS}/services", {"metadata": {"name": "s"}, "spec": {
        "ports": [{"port": 80}], "selector": {"a": "b"}}}),
    post("a secret", f"{NS}/secrets", {"metadata": {"name": "s"}, "data": {"a": "Yg=="}}),
    post("a service account", f"{NS}/serviceaccounts", {"metadata": {"name": "s"}}),
    delete("a service goes", f"{NS}/services/s"),
)  # fmt: skip

STORAGE = (
    post("a storage class", "/apis/storage.k8s.io/v1/storageclasses",
         {"metadata": {"name": "{{run}}-s"}, "provisioner": "x.y/z", "volumeBindingMode": "WaitForFirstConsumer"}),
    post("a volume", f"{CORE}/persistentvolumes",
         {"metadata": {"name": "{{run}}-v"}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                                                      "local": {"path": "/x"}, "storageClassName": "{{run}}-s",
                                                      "nodeAffinity": {"required": {"nodeSelectorTerms": [
                                                          {"matchExpressions": [{"key": "zone", "operator": "In",
                                                                                 "values": ["a"]}]}]}}}},
         capture={"volume": "metadata.resourceVersion"}),
    post("a claim", f"{NS}/persistentvolumeclaims",
         {"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "{{run}}-s",
                                              "resources": {"requests": {"storage": "1Gi"}}}}),
    patch("a node is selected for it", f"{NS}/persistentvolumeclaims/c",
          {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "{{run}}-n1"}}}),
    patch("a volume is given to a claim", f"{CORE}/persistentvolumes/{{{{run}}}}-v",
          {"metadata": {"resourceVersion": "{{volume}}"},
           "spec": {"claimRef": {"namespace": "{{ns}}", "name": "c", "uid": "u"}}}),
    patch("only once", f"{CORE}/persistentvolumes/{{{{run}}}}-v",
          {"metadata": {"resourceVersion": "{{volume}}"}, "spec": {"claimRef": {"name": "d"}}}),
    post("a CSI node", "/apis/storage.k8s.io/v1/csinodes",
         {"metadata": {"name": "{{run}}-c"}, "spec": {"drivers": [
             {"name": "x.y", "nodeID": "n", "topologyKeys": ["zone"], "allocatable": {"count": 3}}]}}),
    post("a CSI driver", "/apis/storage.k8s.io/v1/csidrivers",
         {"metadata": {"name": "{{run}}.d"}, "spec": {"storageCapacity": True}}),
    post("a storage capacity", "/apis/storage.k8s.io/v1/namespaces/{{ns}}/csistoragecapacities",
         {"metadata": {"name": "c"}, "storageClassName": "x", "capacity": "5Gi",
          "nodeTopology": {"matchLabels": {"a": "b"}}}),
    post("a volume attachment", "/apis/storage.k8s.io/v1/volumeattachments",
         {"metadata": {"name": "{{run}}-a"}, "spec": {"attacher": "x.y", "nodeName": "n1", "source": {
             "persistentVolumeName": "d"}}}),
    delete("an attachment goes", "/apis/storage.k8s.io/v1/volumeattachments/{{run}}-a"),
    delete("a CSI node goes", "/apis/storage.k8s.io/v1/csinodes/{{run}}-c"),
    delete("a CSI driver goes", "/apis/storage.k8s.io/v1/csidrivers/{{run}}.d"),
    delete("a storage class goes", "/apis/storage.k8s.io/v1/storageclasses/{{run}}-s"),
)  # fmt: skip

DISCOVERY = (
    *(get(f"health at {path}", path) for path in ("/healthz", "/livez", "/readyz")),
    get("the core version", "/api"),
    get("the core resources", "/api/v1"),
    *(get(f"the resources of {group}", f"/apis/{group}") for group in (
        "apps/v1", "batch/v1", "policy/v1", "storage.k8s.io/v1", "coordination.k8s.io/v1", "events.k8s.io/v1",
        "scheduling.k8s.io/v1", "resource.k8s.io/v1", "authentication.k8s.io/v1", "authorization.k8s.io/v1")),
    get("one group", "/apis/policy"),
    get("the custom resources", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"),
    post("may I", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
         {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}, only_code=True),
)  # fmt: skip

CLEANING = (
    delete("the node", f"{CORE}/nodes/{{{{run}}}}-n1"),
    patch("the volume's finalizers", f"{CORE}/persistentvolumes/{{{{run}}}}-v",
          {"metadata": {"finalizers": None}}, MERGE, only_code=True),
    delete("the volume", f"{CORE}/persistentvolumes/{{{{run}}}}-v", only_code=True),
    delete("the remaining pods", f"{PODS}?gracePeriodSeconds=0", only_code=True),
    delete("the namespace", NS),
    post("no new content", f"{NS}/configmaps", {"metadata": {"name": "x"}}),
)  # fmt: skip

CHAPTERS: dict[str, tuple[Step, ...]] = {
    "namespace": NAMESPACE,
    "nodes": NODES,
    "pods": POD_CREATION,
    "priority": PRIORITY,
    "binding": BINDING,
    "status": STATUS,
    "patches": PATCHES,
    "lists": LISTS,
    "watches": WATCHES,
    "deletion": DELETION,
    "eviction": EVICTION,
    "events": EVENT_OBJECTS,
    "leases": LEASE,
    "objects": OBJECTS,
    "storage": STORAGE,
    "discovery": DISCOVERY,
    "cleaning": CLEANING,
}
