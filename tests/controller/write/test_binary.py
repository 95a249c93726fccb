"""Objects in binary form: sent back as they came, but for a field that is added."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileOptions

from scheduler.controller.write.binary import Identity, NotBinary, field, identity_of, integer, with_added
from scheduler.controller.write.claims import ClaimRequests
from scheduler.controller.write.client import Directly
from scheduler.controller.write.fence import Departure
from scheduler.controller.write.leadership import AlwaysHeld
from scheduler.controller.write.writer_settings import WriterSettings
from scheduler.errors import ApiError
from scheduler.messages.claim_commands import ReserveClaim
from scheduler.messages.references import ClaimReference
from scheduler.objects.kinds import decode_as
from scheduler.objects.resource_claims import ClaimConsumer, ResourceClaim
from tests.controller.write.scripted_server import Play, client_of, served
from tests.controller.write.test_credentials import kubeconfig
from tests.device_documents import DRIVER, claim

ALLOCATED = Path(__file__).parent / "data" / "allocated-claim.pb"
"""A claim with parameters in its spec and in its allocation, encoded by k8s.io/api v0.36.3, which also reads what
``with_added`` makes of it."""
KIND = field(1, field(1, "resource.k8s.io/v1") + field(2, "ResourceClaim"))
CONSUMER = ClaimConsumer(resource="pods", name="p", uid="uid-of-p")
FINALIZER = "resource.kubernetes.io/delete-protection"


def document(content: bytes) -> bytes:
    """An object as the API server sends it."""
    return b"k8s\x00" + KIND + field(2, content) + field(3, b"") + field(4, b"")


def content_of(sent: bytes) -> bytes:
    """The object in a document that was made by ``document``."""
    _, _, rest = sent.partition(KIND)
    size, place, shift = 0, 1, 0
    while True:
        byte = rest[place]
        size |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return rest[place : place + size]


def test_an_added_field_is_merged_with_what_is_there_by_every_reader_of_protobuf() -> None:
    known = FileDescriptorProto(name="a", dependency=["one"], options=FileOptions(java_package="x" * 200))
    added = field(3, "two") + field(8, field(11, "y"))
    found = FileDescriptorProto.FromString(content_of(with_added(document(known.SerializeToString()), added)))
    assert (found.name, list(found.dependency)) == ("a", ["one", "two"])
    assert (found.options.java_package, found.options.go_package) == ("x" * 200, "y")


def test_an_object_of_kubernetes_own_codec_is_left_as_it_is_but_for_what_is_added() -> None:
    found = ALLOCATED.read_bytes()
    assert identity_of(found) == Identity("uid-1", "42")
    added = field(1, field(14, FINALIZER))
    more = with_added(found, added)
    parameters = b'{ "b": "x < y",  "a": 1 }'
    assert more.count(parameters) == found.count(parameters) == 2
    assert len(more) == len(found) + len(added)
    assert identity_of(more) == identity_of(found)


def test_an_object_is_known_by_its_uid_and_version() -> None:
    metadata = field(1, "c") + integer(7, 300) + field(5, "uid-1") + field(6, "42")
    assert identity_of(document(field(1, metadata) + field(2, b"\x08\x01"))) == Identity("uid-1", "42")


@pytest.mark.parametrize("content", [b"{}", b"", b"k8s\x00\x12\x7f", b"k8s\x00\x0b", b"k8s\x00\x80"])
def test_what_is_no_object_is_refused(content: bytes) -> None:
    with pytest.raises(NotBinary):
        identity_of(content)


def claimed(parameters: str, **status: object) -> bytes:
    """A claim with a driver's parameters, as JSON."""
    opaque = {"driver": DRIVER, "parameters": msgspec.Raw(parameters.encode())}
    found = claim("c", "gpus", config=[{"opaque": opaque}])
    found["metadata"]["resourceVersion"] = "7"
    return msgspec.json.encode({**found, "status": status})


def refusing_patches(version: bytes, answer: bytes) -> Play:
    """An API server for which every patch of the claim changes the driver's parameters, too."""

    async def play(_number: int, request: bytes, writer: asyncio.StreamWriter) -> None:
        method = request.partition(b" ")[0]
        status, content = b"200 OK", answer
        if method == b"PATCH":
            said = {"kind": "Status", "reason": "Invalid", "message": "spec: field is immutable", "code": 422}
            status, content = b"422 Unprocessable Entity", msgspec.json.encode(said)
        elif method == b"GET":
            assert b"Accept: application/vnd.kubernetes.protobuf" in request
            metadata = field(1, "c") + field(5, "claim-c") + field(6, version)
            content = document(field(1, metadata) + field(2, b"parameters: { }"))
        writer.write(b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status, len(content), content))

    return play


ALLOCATION = {
    "devices": {
        "results": [{"request": "r", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}],
        "config": [{"source": "FromClaim", "opaque": {"driver": DRIVER, "parameters": {}}}],
    }
}


async def test_a_claim_whose_parameters_no_patch_leaves_alone_is_reserved_in_binary_form(tmp_path: Path) -> None:
    known = decode_as(ResourceClaim, claimed("{ }", allocation=ALLOCATION))
    play = refusing_patches(b"7", claimed("{ }", allocation=ALLOCATION))
    async with served(play) as (server, url), client_of(kubeconfig(tmp_path / "k", url), Directly.ALL) as client:
        await client.connect()
        requests = ClaimRequests(client, WriterSettings(), lambda: "1970-01-01T00:05:00Z")
        command = ReserveClaim(1, ClaimReference("default", "c", "claim-c"), CONSUMER, known)
        await requests.carry_out(command, Departure(AlwaysHeld()))
        put = server.requests[-1]
        assert put.startswith(b"PUT /apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c/status ")
        assert b"Content-Type: application/vnd.kubernetes.protobuf" in put
        reserved = field(2, field(3, "pods") + field(4, "p") + field(5, "uid-of-p"))
        dated = field(1, field(5, integer(1, 300)))
        assert content_of(put).endswith(field(2, b"parameters: { }") + field(3, reserved + dated))


@pytest.mark.parametrize("version", [b"7", b"8"])
async def test_the_finalizer_is_added_to_the_very_version_that_is_known(tmp_path: Path, version: bytes) -> None:
    known = decode_as(ResourceClaim, claimed("{ }"))
    command = ReserveClaim(
        1,
        ClaimReference("default", "c", "claim-c"),
        CONSUMER,
        known,
        decode_as(ResourceClaim, claimed("{ }", allocation=ALLOCATION)).allocation,
    )
    play = refusing_patches(version, claimed("{ }"))
    async with served(play) as (server, url), client_of(kubeconfig(tmp_path / "k", url), Directly.ALL) as client:
        await client.connect()
        requests = ClaimRequests(client, WriterSettings(), lambda: "1970-01-01T00:05:00Z")
        with pytest.raises(ApiError):  # the status is a patch, too, and refused
            await requests.carry_out(command, Departure(AlwaysHeld()))
        puts = [one for one in server.requests if one.startswith(b"PUT")]
        assert [content_of(one).endswith(field(1, field(14, FINALIZER))) for one in puts] == [True] * (version == b"7")
