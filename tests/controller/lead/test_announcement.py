"""What a Lease says about its holder's pages is taken only if it can be true."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.controller.lead.announcement import ANNOTATION, announced, read_announcement
from scheduler.messages.references import PodReference

DIGEST = "0123456789abcdef" * 4


def test_what_is_announced_is_read() -> None:
    pod = PodReference("kube-system", "tandem-5d4f-x2x1", "uid-1")
    found = read_announcement(announced(pod, 10_259, DIGEST))
    assert found is not None
    assert (found.namespace, found.pod, found.port, found.certificate) == (pod.namespace, pod.name, 10_259, DIGEST)


@pytest.mark.parametrize(
    "wrong",
    [
        {"pod": "victim/exec?command=id&stdout=true&x="},
        {"pod": "../../secrets"},
        {"pod": ""},
        {"pod": "a" * 254},
        {"namespace": "default/pods/victim/exec?command=id&x="},
        {"port": 0},
        {"port": 70_000},
        {"certificate": "z" * 64},
        {"certificate": DIGEST + "\n"},
    ],
)
def test_names_that_lead_elsewhere_are_no_announcement(wrong: dict[str, object]) -> None:
    """The user's own credentials go with the request: a path in a name must not become a request to exec."""
    stated = {"namespace": "kube-system", "pod": "tandem-0", "port": 10_259, "certificate": DIGEST}
    assert read_announcement({ANNOTATION: msgspec.json.encode(stated).decode()}) is not None
    assert read_announcement({ANNOTATION: msgspec.json.encode({**stated, **wrong}).decode()}) is None
