"""Claims for devices that a controller would make for pods, from the templates that they name.

Templates are not watched. Those that the question states are known, and what the claim of a pod asks for stands for the
template that it was made from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.questions.admission import Object, WrongManifest, is_claim_template, with_defaults
from scheduler.engine.questions.edits import Edit, PutObject
from scheduler.engine.questions.names import checked_name
from scheduler.engine.questions.trial import Trial
from scheduler.errors import InvalidObject
from scheduler.objects.kinds import Kind, decode_as
from scheduler.objects.meta import ObjectMeta, OwnerReference
from scheduler.objects.pod import PodResourceClaim, PodResourceClaimStatus
from scheduler.objects.resource_claims import ResourceClaim, ResourceClaimStatus
from scheduler.objects.salvage import DECODER_ERRORS

_OF_A_TEMPLATE: Final = ("labels", "annotations")


def stated_templates(manifests: Iterable[Object], edits: Sequence[Edit]) -> Iterator[Object]:
    """The ResourceClaimTemplates among the manifests and the objects that are put."""
    yield from (one for one in manifests if is_claim_template(one))
    yield from (one.object for one in edits if isinstance(one, PutObject) and is_claim_template(one.object))


class DeviceClaims:
    """Makes claims in the fork of a trial."""

    def __init__(self, trial: Trial, known: Iterable[PodInfo], stated: Iterable[Object]) -> None:
        """``known``: the pods of the cluster. ``stated``: ResourceClaimTemplates. Raises WrongManifest, WrongName."""
        self._trial = trial
        self._known = known
        claims = [_claim_of(one) for one in stated]
        self._templates: dict[str, ResourceClaim | None] = {one.key: one for one in claims}
        """By the template's ``namespace/name``: a claim as it asks for; None where it is not known."""

    @property
    def unknown(self) -> list[str]:
        """Templates that pods name and of which nothing is known."""
        return [key for key, claim in self._templates.items() if claim is None]

    def notes(self) -> Iterator[str]:
        if self.unknown:
            yield f"nothing is known of the ResourceClaimTemplate {', '.join(self.unknown)}: no claim was made"

    def given_to(self, info: PodInfo) -> PodInfo:
        """The pod with the claims that it has no name of yet. A claim of an unknown template is not made."""
        known = info.pod.status.resource_claim_statuses
        names = {one.name for one in known}
        made = [
            PodResourceClaimStatus(entry.name, claim.name)
            for entry in info.pod.spec.resource_claims
            if entry.resource_claim_template_name and entry.name not in names
            if (claim := self._made(info, entry, entry.resource_claim_template_name)) is not None
        ]
        if not made:
            return info
        status = msgspec.structs.replace(info.pod.status, resource_claim_statuses=(*known, *made))
        return PodInfo(msgspec.structs.replace(info.pod, status=status), info.node_name)

    def _made(self, info: PodInfo, entry: PodResourceClaim, template: str) -> ResourceClaim | None:
        found = self._asked_by(f"{info.namespace}/{template}")
        if found is None:
            return None
        owner = OwnerReference(api_version="v1", kind="Pod", name=info.name, uid=info.uid, controller=True)
        metadata = ObjectMeta(
            name=f"{info.name}-{entry.name}-{info.uid}",
            namespace=info.namespace,
            uid=f"{info.uid}-{entry.name}",
            labels=found.labels,
            annotations=found.annotations,
            owner_references=(owner,),
        )
        claim = msgspec.structs.replace(found, metadata=metadata, status=ResourceClaimStatus())
        # Kept if it exists: a pod may be made more than once, and its claim may have devices by then.
        if self._trial.cache.objects.find(ResourceClaim, claim.key) is None:
            self._trial.cache.observe_object(Kind.RESOURCE_CLAIM, claim)
        return claim

    def _asked_by(self, template: str) -> ResourceClaim | None:
        if template not in self._templates:
            self._templates[template] = next(self._claims_from(template), None)
        return self._templates[template]

    def _claims_from(self, template: str) -> Iterator[ResourceClaim]:
        """Claims that were made from this template for pods of the cluster."""
        for info in self._known:
            entries = {
                entry.name
                for entry in info.pod.spec.resource_claims
                if f"{info.namespace}/{entry.resource_claim_template_name}" == template
            }
            for status in info.pod.status.resource_claim_statuses if entries else ():
                key = f"{info.namespace}/{status.resource_claim_name}"
                claim = self._trial.cache.objects.find(ResourceClaim, key)
                if status.name in entries and claim is not None and claim.is_controlled_by(info.uid):
                    yield claim


def _claim_of(template: Object) -> ResourceClaim:
    """What claims from this template ask for, under the template's own name."""
    metadata, spec = (template.get(field) or {} for field in ("metadata", "spec"))
    try:
        described = spec.get("metadata") or {}
        kept = {field: described.get(field) or {} for field in _OF_A_TEMPLATE}
        named = {"name": metadata.get("name") or "", "namespace": metadata.get("namespace") or "default"}
        document = {"metadata": {**kept, **named}, "spec": spec.get("spec") or {}}
        filled = with_defaults(Kind.RESOURCE_CLAIM, document, {})
        claim = decode_as(ResourceClaim, msgspec.json.encode(filled))
    except InvalidObject as error:
        raise WrongManifest(f"a ResourceClaimTemplate can't be read: {error.reason}") from error
    except DECODER_ERRORS as error:
        raise WrongManifest(f"a ResourceClaimTemplate can't be read: {type(error).__name__}") from error
    checked_name(claim.name, "name of a ResourceClaimTemplate")
    checked_name(claim.namespace, "namespace")
    return claim
