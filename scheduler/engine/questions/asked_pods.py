"""The pods of a question's workloads, with the claims that controllers make for them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.questions.claims import in_a_class
from scheduler.engine.questions.device_claims import DeviceClaims
from scheduler.engine.questions.trial import Trial
from scheduler.engine.questions.workloads import Workload
from scheduler.objects.kinds import Kind
from scheduler.objects.storage import PersistentVolumeClaim, StorageClass


class AskedPods:
    """Makes pods in the fork of a trial."""

    def __init__(self, trial: Trial, devices: DeviceClaims) -> None:
        self._trial = trial
        self._devices = devices
        self._first: dict[int, int] = {}
        """By a workload's serial: the number of its first pod whose name no other pod has."""
        self.left_out: dict[str, None] = {}
        """Workloads with volumes of which nothing is known, and which do not count."""

    def pod(self, workload: Workload, number: int) -> PodInfo:
        """The pod of this number, from 0 on. Claims that are there already are its own, as after a StatefulSet has been
        scaled down. Where the volumes of new ones come from before any pod is tried, nothing is known of them: they are
        left out."""
        info = self._devices.given_to(workload.pod(number + self._first_free(workload)))
        unknown: set[str] = set()
        for template in workload.claims:
            claim = in_a_class(self._trial.cache.objects, template.claim_of(info))
            objects = self._trial.cache.objects
            if objects.find(PersistentVolumeClaim, claim.key) is not None:
                continue
            found = objects.find(StorageClass, claim.storage_class)
            if found is not None and not found.waits_for_first_consumer:
                unknown.add(template.volume)
            else:
                self._trial.cache.observe_object(Kind.PERSISTENT_VOLUME_CLAIM, claim)
        if not unknown:
            return info
        self.left_out[workload.name] = None
        volumes = tuple([volume for volume in info.pod.spec.volumes if volume.name not in unknown])
        spec = msgspec.structs.replace(info.pod.spec, volumes=volumes)
        return PodInfo(msgspec.structs.replace(info.pod, spec=spec), "")

    def notes(self) -> Iterator[str]:
        if self.left_out:
            names = ", ".join(self.left_out)
            yield f"volumes of {names} that are provided before their pods are tried were left out"

    def _first_free(self, workload: Workload) -> int:
        """Pods of a StatefulSet are more than those that it has: each name, and its claims, are one pod's."""
        if workload.kind != "StatefulSet":
            return 0
        found = self._first.get(workload.serial)
        if found is None:
            found = 0
            stem = f"{workload.template.namespace}/{workload.name}"
            while self._trial.known_pods.get(f"{stem}-{workload.first + found}") is not None:
                found += 1
            self._first[workload.serial] = found
        return found
