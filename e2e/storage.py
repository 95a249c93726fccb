"""Classes, volumes and claims of one room, gone without a trace when its test is over."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from e2e.client import ApiError, Object, State
from e2e.room import Room

NO_PROVISIONER = "kubernetes.io/no-provisioner"
PROVISIONER = "provisioner.tandem.test"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


class Storage:
    """Makes storage objects in a room; `claims` watches its claims. A context manager.

    Names of what belongs to no namespace begin with the room's name. The finalizers that protect claims and volumes
    are taken away here, since the controllers that would do it are not part of every control plane.
    """

    def __init__(self, room: Room) -> None:
        self._room = room

    def __enter__(self) -> Self:
        self.claims = self._room.client.watch("PersistentVolumeClaim", self._room.name).__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for claim in self._room.client.list("PersistentVolumeClaim", self._room.name):
            self._remove("PersistentVolumeClaim", claim["metadata"]["name"], self._room.name)
        for volume in self.volumes():
            self._remove("PersistentVolume", volume["metadata"]["name"], None)
        self.claims.__exit__(kind, error, traceback)

    def add_class(self, provisioner: str = NO_PROVISIONER) -> None:
        """The room's one class; its claims wait for their first consumer."""
        self._room.add_cluster_object(
            {
                "kind": "StorageClass",
                "apiVersion": "storage.k8s.io/v1",
                "metadata": {"name": self._class},
                "provisioner": provisioner,
                "volumeBindingMode": "WaitForFirstConsumer",
                "reclaimPolicy": "Retain",
            }
        )

    def add_volume(self, name: str, node: str, size: str = "1Gi", mode: str = "ReadWriteOnce") -> str:
        """A volume that only this node reaches; its full name."""
        thing = volume(f"{self._room.name}-{name}", self._room.name, self._class, node, size, mode)
        created = self._room.client.create(thing)
        # The controller that looks after volumes says when one is to be had.
        with self._room.client.watch("PersistentVolume") as watch:
            full: str = created["metadata"]["name"]
            watch.wait_until(lambda state: state[full]["status"].get("phase") == "Available", 30, f"{full} available")
        return full

    def add_claim(self, name: str, size: str = "1Gi", mode: str = "ReadWriteOnce") -> Object:
        return self._room.client.create(
            {
                "kind": "PersistentVolumeClaim",
                "apiVersion": "v1",
                "metadata": {"name": name, "namespace": self._room.name},
                "spec": {
                    "accessModes": [mode],
                    "storageClassName": self._class,
                    "resources": {"requests": {"storage": size}},
                },
            }
        )

    def remove_claim(self, name: str) -> None:
        """As in a cluster that sees that no running pod uses the claim."""
        self._remove("PersistentVolumeClaim", name, self._room.name)

    def volumes(self) -> list[Object]:
        return self._room.client.list("PersistentVolume", labelSelector=f"room={self._room.name}")

    def wait_claim(self, name: str, condition: Callable[[Object], Any], hope: str, seconds: float = 30) -> Object:
        """The claim, as soon as it is there and the condition holds."""

        def found(state: State) -> Object | None:
            claim = state.get(f"{self._room.name}/{name}")
            return claim if claim is not None and condition(claim) else None

        return self.claims.wait_until(found, seconds, f"claim {name}: {hope}")

    def wait_selected(self, name: str) -> str:
        """The node that the scheduler chose for the claim."""
        node: str = self.wait_claim(name, selected_node, "a selected node")["metadata"]["annotations"][SELECTED_NODE]
        return node

    def _remove(self, kind: str, name: str, namespace: str | None) -> None:
        self._room.client.delete(kind, name, namespace)
        with contextlib.suppress(ApiError):
            self._room.client.patch(kind, name, namespace, {"metadata": {"finalizers": None}})

    @property
    def _class(self) -> str:
        return f"{self._room.name}-class"


def volume(name: str, room: str, storage_class: str, node: str, size: str, mode: str) -> Object:
    """A PersistentVolume that is reached from one node only."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "kind": "PersistentVolume",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": {"room": room}},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": [mode],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": storage_class,
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            "csi": {"driver": PROVISIONER, "volumeHandle": name},
        },
    }


def mounted(claim: str) -> list[Object]:
    """The volumes of a pod that uses this claim."""
    return [{"name": claim, "persistentVolumeClaim": {"claimName": claim}}]


def selected_node(claim: Object) -> str | None:
    node: str | None = claim["metadata"].get("annotations", {}).get(SELECTED_NODE)
    return node


def is_bound(claim: Object) -> bool:
    """Completely: with a volume, and the mark that the binding is over."""
    return bool(claim["spec"].get("volumeName")) and BIND_COMPLETED in claim["metadata"].get("annotations", {})
