"""Devices in a random workload: drivers that publish, withdraw and taint; pods whose claims are made from templates, or
that share a claim.

Each node has whole GPUs, and one that is to be had whole or as two halves, whose memory is a shared counter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

from scheduler.objects.kinds import Kind
from scheduler.simulate.changes import Change, Create, Delete, Merge
from scheduler.simulate.world_devices import CLASS_SIZES, claim_spec
from scheduler.simulate.world_facts import Document, Facts

DRIVER: Final = "gpu.example.com"
MAX_GPUS: Final = 3
TEMPLATES: Final = ("gpus-1", "gpus-1", "gpus-2", "wholes-1", "halves-1", "halves-2")
"""Class and count: what a claim made from the template asks for."""


def slice_documents(node: str, gpus: int) -> tuple[Document, Document]:
    """What a node's driver publishes: the devices, and the counters of the one that can be divided."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 2}
    common = {"driver": DRIVER, "nodeName": node, "pool": pool}
    devices = [_device(f"gpu-{number}", "gpus") for number in range(gpus)]
    devices.append(_device("whole", "wholes", "80Gi"))
    devices += [_device(f"half-{number}", "halves", "40Gi") for number in range(2)]
    counters = [{"name": "gpu", "counters": {"memory": {"value": "80Gi"}}}]
    return (
        {"metadata": {"name": f"{node}-devices"}, "spec": {**common, "devices": devices}},
        {"metadata": {"name": f"{node}-counters"}, "spec": {**common, "sharedCounters": counters}},
    )


def _device(name: str, device_class: str, memory: str = "") -> Document:
    found: Document = {"name": name, "attributes": {"size": {"int": CLASS_SIZES[device_class]}}}
    if memory:
        found["consumesCounters"] = [{"counterSet": "gpu", "counters": {"memory": {"value": memory}}}]
    return found


class DeviceActions:
    """Random changes to devices. ``pod`` makes a pod of any shape."""

    def __init__(self, random: Random, facts: Callable[[], Facts], pod: Callable[[], Document]) -> None:
        self._random = random
        self._facts = facts
        self._pod = pod
        self._made = 0

    def weights(self) -> dict[Callable[[], Iterator[Change]], int]:
        return {self.add_pod: 30, self.add_sharing: 5, self.publish: 8, self.withdraw: 3, self.taint_or_not: 5}

    def begin(self) -> Iterator[Change]:
        for name, size in CLASS_SIZES.items():
            expression = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].size == {size}'
            spec = {"selectors": [{"cel": {"expression": expression}}]}
            yield Create(Kind.DEVICE_CLASS, {"metadata": {"name": name}, "spec": spec})
        yield from self.publish_all()

    # --- users --------------------------------------------------------------------------------------------------------

    def add_pod(self) -> Iterator[Change]:
        """The claim controller makes its claim, and writes the claim's name into the pod's status."""
        template = self._random.choice(TEMPLATES)
        yield Create(Kind.POD, self._claiming({"resourceClaimTemplateName": template}))

    def add_sharing(self) -> Iterator[Change]:
        """A claim and the pods that share it, in any order."""
        self._made += 1
        name = f"shared-{self._made}"
        template = self._random.choice(TEMPLATES)
        changes: list[Change] = [
            Create(Kind.RESOURCE_CLAIM, {"metadata": {"name": name}, "spec": claim_spec(template)})
        ]
        changes += [
            Create(Kind.POD, self._claiming({"resourceClaimName": name})) for _ in range(self._random.randint(1, 2))
        ]
        self._random.shuffle(changes)
        yield from changes

    def _claiming(self, source: Document) -> Document:
        pod = self._pod()
        return pod | {"spec": pod["spec"] | {"resourceClaims": [{"name": "gpu", **source}]}}

    # --- drivers ------------------------------------------------------------------------------------------------------

    def publish(self) -> Iterator[Change]:
        """The driver of a node that has published nothing starts."""
        if lacking := self._without_slices():
            yield from self._published(self._random.choice(lacking))

    def publish_all(self) -> Iterator[Change]:
        for node in self._without_slices():
            yield from self._published(node)

    def _published(self, node: str) -> Iterator[Change]:
        documents = list(slice_documents(node, self._random.randint(1, MAX_GPUS)))
        self._random.shuffle(documents)
        for document in documents:
            yield Create(Kind.RESOURCE_SLICE, document)

    def _without_slices(self) -> list[str]:
        facts = self._facts()
        return [node for node, _ in facts.of(Kind.NODE) if facts.get(Kind.RESOURCE_SLICE, f"{node}-devices") is None]

    def withdraw(self) -> Iterator[Change]:
        """A driver is uninstalled, or its node is gone: pods that run keep their devices."""
        found = [name for name, _ in self._facts().of(Kind.RESOURCE_SLICE) if name.endswith("-devices")]
        if found:
            node = self._random.choice(found).removesuffix("-devices")
            yield Delete(Kind.RESOURCE_SLICE, f"{node}-devices")
            yield Delete(Kind.RESOURCE_SLICE, f"{node}-counters")

    def taint_or_not(self) -> Iterator[Change]:
        found = [(name, one) for name, one in self._facts().of(Kind.RESOURCE_SLICE) if one["spec"].get("devices")]
        if found:
            name, document = self._random.choice(found)
            effect = self._random.choice(("NoSchedule", "NoExecute"))
            taints = [{"key": "broken", "effect": effect}] if self._random.random() < 0.5 else []
            tainted = self._random.randrange(len(document["spec"]["devices"]))
            yield self._with_taints(name, document, {tainted: taints})

    def settle(self) -> Iterator[Change]:
        """Every device is there again, and none has taints."""
        for name, document in self._facts().of(Kind.RESOURCE_SLICE):
            if devices := document["spec"].get("devices"):
                yield self._with_taints(name, document, {number: [] for number in range(len(devices))})
        yield from self.publish_all()

    @staticmethod
    def _with_taints(name: str, document: Document, taints: dict[int, list[Any]]) -> Change:
        devices = [
            one | {"taints": taints[number]} if number in taints else one
            for number, one in enumerate(document["spec"]["devices"])
        ]
        return Merge(Kind.RESOURCE_SLICE, name, {"spec": {"devices": devices}})


def free_gpus(facts: Facts) -> dict[str, int]:
    """Node → its plain GPUs that no claim holds and that may be given."""
    held = {
        (result["pool"], result["device"])
        for _, claim in facts.of(Kind.RESOURCE_CLAIM)
        for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    }
    return {
        document["spec"]["nodeName"]: sum(
            device["attributes"]["size"]["int"] == CLASS_SIZES["gpus"]
            and not device.get("taints")
            and (document["spec"]["nodeName"], device["name"]) not in held
            for device in document["spec"]["devices"]
        )
        for _, document in facts.of(Kind.RESOURCE_SLICE)
        if "devices" in document["spec"]
    }
