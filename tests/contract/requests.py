"""The conversation that the embedded API server and the real kube-apiserver have to agree on, request by request.

`{{ns}}` is the namespace of this run, `{{run}}` a prefix for names of objects outside namespaces; other `{{names}}`
are captured from earlier answers. Needs a server on which nothing else acts on these objects: no controllers, no
kubelets.
"""

from __future__ import annotations

from tests.contract.pod_requests import BINDING, DELETION, EVICTION, PATCHES, POD_CREATION, PRIORITY, STATUS
from tests.contract.steps import (
    APPS,
    CORE,
    EVENTS,
    LEASES,
    MERGE,
    NS,
    PODS,
    TABLE,
    Step,
    delete,
    get,
    patch,
    post,
    put,
    workload,
)

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
