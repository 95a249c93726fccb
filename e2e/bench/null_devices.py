"""How the null scheduler gives devices away: any of the node, in turn, with the writes that every contender makes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol

import msgspec

API = "/apis/resource.k8s.io/v1"
FINALIZER = "resource.kubernetes.io/delete-protection"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

Get = Callable[[str, dict[str, str]], Awaitable[bytes]]


class Send(Protocol):
    """Send a body; returns the answer's. Raises for an error."""

    def __call__(self, method: str, path: str, body: object, content_type: str = ...) -> Awaitable[bytes]: ...


class Pod(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def namespace(self) -> str: ...

    @property
    def uid(self) -> str: ...


class NullDevices:
    """Claims in their latest versions, and the devices of each node in an endless row."""

    def __init__(self, get: Get, send: Send) -> None:
        self._get = get
        self._send = send
        self._claims: dict[tuple[str, str], Any] = {}
        """(namespace, name) → the claim when it was listed."""
        self._devices: dict[str, Iterator[tuple[str, str, str]]] = {}
        """Node → (driver, pool, device)"""
        self._listing = asyncio.Lock()
        self._classes: dict[str, str] = {}
        """Extended resource → the class that stands for it."""

    async def _start(self) -> None:
        """List what there is, once: when the first pod asks for devices."""
        async with self._listing:
            if not self._devices:
                await self._list_all()

    async def _list_all(self) -> None:
        for claim in await self._list("resourceclaims"):
            self._claims[claim["metadata"]["namespace"], claim["metadata"]["name"]] = claim
        of_node: dict[str, list[tuple[str, str, str]]] = {}
        for one in await self._list("resourceslices"):
            spec = one["spec"]
            of_node.setdefault(spec["nodeName"], []).extend(
                (spec["driver"], spec["pool"]["name"], device["name"]) for device in spec.get("devices") or ()
            )
        self._devices = {node: itertools.cycle(devices) for node, devices in of_node.items()}
        for one in await self._list("deviceclasses"):
            self._classes[one["spec"].get("extendedResourceName", "")] = one["metadata"]["name"]

    async def allocate(self, name: str, pod: Pod, node: str) -> None:
        """Put the finalizer and then the allocation and the reservation into a claim of the pod."""
        await self._start()
        path = f"{API}/namespaces/{pod.namespace}/resourceclaims/{name}"
        claim = self._claims.get((pod.namespace, name)) or msgspec.json.decode(await self._get(path, {}))
        known = {"uid": claim["metadata"]["uid"], "resourceVersion": claim["metadata"]["resourceVersion"]}
        body = {"metadata": {**known, "finalizers": [FINALIZER]}}
        await self._write_status(msgspec.json.decode(await self._send("PATCH", path, body, MERGE)), pod, node)

    async def make_claim(self, pod: Pod, node: str, resources: list[str]) -> None:
        """Make the claim for a pod's extended resources, allocate it and name it in the pod's status."""
        await self._start()
        requests = [
            {
                "name": f"container-0-request-{number}",
                "exactly": {"deviceClassName": self._classes[resource], "allocationMode": "ExactCount", "count": 1},
            }
            for number, resource in enumerate(resources)
        ]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
        metadata = {
            "generateName": f"{pod.name}-extended-resources-",
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "finalizers": [FINALIZER],
            "ownerReferences": [owner],
        }
        body = {"metadata": metadata, "spec": {"devices": {"requests": requests}}}
        path = f"{API}/namespaces/{pod.namespace}/resourceclaims"
        made = msgspec.json.decode(await self._send("POST", path, body))
        await self._write_status(made, pod, node)
        mappings = [
            {"containerName": "app", "resourceName": resource, "requestName": request["name"]}
            for resource, request in zip(resources, requests, strict=True)
        ]
        status = {"resourceClaimName": made["metadata"]["name"], "requestMappings": mappings}
        patch = {"metadata": {"uid": pod.uid}, "status": {"extendedResourceClaimStatus": status}}
        await self._send("PATCH", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status", patch, STRATEGIC)

    async def _write_status(self, claim: Any, pod: Pod, node: str) -> None:
        results = []
        for request in claim["spec"]["devices"]["requests"]:
            for _ in range(request["exactly"]["count"]):
                driver, pool, device = next(self._devices[node])
                results.append({"request": request["name"], "driver": driver, "pool": pool, "device": device})
        fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
        allocation = {
            "devices": {"results": results},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
        }
        metadata = {key: claim["metadata"][key] for key in ("uid", "resourceVersion")}
        consumer = {"resource": "pods", "name": pod.name, "uid": pod.uid}
        body = {"metadata": metadata, "status": {"allocation": allocation, "reservedFor": [consumer]}}
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        await self._send("PATCH", f"{API}/namespaces/{namespace}/resourceclaims/{name}/status", body, MERGE)

    async def _list(self, plural: str) -> list[Any]:
        found: list[Any] = msgspec.json.decode(await self._get(f"{API}/{plural}", {}))["items"]
        return found
