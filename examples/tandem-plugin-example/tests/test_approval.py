import asyncio
import json
from types import SimpleNamespace

from tandem_plugin_example.approval import APPROVED, REQUIRED, Approval, ApprovalArgs

from scheduler.plugin import PodInfo, Wait, WaitingPod
from scheduler.testing import check_contract, pod

ASKS = PodInfo(pod("p", labels={REQUIRED: "required"}))


class Handle:
    """An API server with one pod, and a list of what the plugin decided."""

    def __init__(self, annotations: dict[str, str], uid: str = "") -> None:
        self.client = self
        self.metadata = {"uid": uid or ASKS.uid, "annotations": annotations}
        self.decided: list[tuple[str, ...]] = []
        self.is_decided = asyncio.Event()

    async def request(self, method: str, path: str) -> SimpleNamespace:
        assert (method, path) == ("GET", "/api/v1/namespaces/default/pods/p")
        return SimpleNamespace(body=json.dumps({"metadata": self.metadata}).encode())

    def waiting_pods(self) -> list[WaitingPod]:
        return [] if self.decided else [WaitingPod(ASKS, "a")]

    def allow(self, uid: str) -> None:
        self.decided.append(("allow", uid))
        self.is_decided.set()

    def reject(self, uid: str, message: str) -> None:
        self.decided.append(("reject", uid, message))


def decision(annotations: dict[str, str], uid: str = "") -> list[tuple[str, ...]]:
    handle = Handle(annotations, uid)
    asyncio.run(Approval()._ask(handle, WaitingPod(ASKS, "a")))
    return handle.decided


def test_it_keeps_the_plugin_contract() -> None:
    check_contract(Approval())


def test_only_a_pod_that_asks_for_it_waits() -> None:
    assert Approval().permit(None, ASKS, None, "a") == Wait(3600)
    assert Approval().permit(None, PodInfo(pod("q")), None, "a") is None


def test_it_is_bound_when_approved_and_goes_back_when_refused() -> None:
    assert decision({APPROVED: "yes"}) == [("allow", ASKS.uid)]
    assert decision({APPROVED: "no"}) == [("reject", ASKS.uid, "the approval was refused")]
    assert decision({}) == []


def test_the_approval_of_another_pod_of_that_name_does_not_count() -> None:
    assert decision({APPROVED: "yes"}, uid="another") == []


def test_it_looks_again_and_again() -> None:
    async def until_decided() -> None:
        handle = Handle({})
        task = asyncio.create_task(Approval(ApprovalArgs(ask_every_seconds=0.1)).run(handle))
        await asyncio.sleep(0)
        handle.metadata["annotations"] = {APPROVED: "yes"}
        await handle.is_decided.wait()
        task.cancel()
        assert handle.decided == [("allow", ASKS.uid)]

    asyncio.run(asyncio.wait_for(until_decided(), 10))


def test_waits_that_make_no_sense_are_refused() -> None:
    faults = Approval.validate_args(ApprovalArgs(wait_seconds=0, ask_every_seconds=0), "args")
    assert [path for path, _ in faults] == ["args.waitSeconds", "args.askEverySeconds"]
