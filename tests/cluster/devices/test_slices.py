"""What is kept of a ResourceSlice."""

from __future__ import annotations

import msgspec

from scheduler.cluster.devices.slices import DIGEST_BYTES, SlicePart
from scheduler.objects.devices import ResourceSlice
from scheduler.objects.kinds import decode_as
from tests.device_documents import gpu, resource_slice


def part(node: str, *models: str) -> SlicePart:
    devices = [gpu(f"gpu-{number}", attributes={"model": model}) for number, model in enumerate(models)]
    return SlicePart(decode_as(ResourceSlice, msgspec.json.encode(resource_slice(node, *devices))))


def test_what_distinguishes_slices_is_as_short_for_many_devices() -> None:
    many = part("a", *["x"] * 128)
    assert len(many.content) == DIGEST_BYTES
    assert many.content == part("b", *["x"] * 128).content
    assert many.content != part("a", *["x"] * 127, "y").content
