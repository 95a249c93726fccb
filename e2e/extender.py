"""An HTTP extender as a separate process, whose behaviour, correct or faulty, a test sets.

Run as a program it serves on the loopback (``python -m e2e.extender PORT KUBECONFIG BEHAVIOUR``); `Extender` is the
test's handle of such a process. `PUT /behaviour` changes its behaviour, `GET /calls` lists the calls received.
"""

from __future__ import annotations

import asyncio
import json
import sys
import urllib.request
from pathlib import Path
from typing import Any

from aiohttp import web

from e2e import paths
from e2e.client import ApiError, AsyncClient
from e2e.connection import from_kubeconfig
from e2e.controlplane import service
from e2e.controlplane.processes import Process
from scheduler.simulate.ports import free_ports

Body = dict[str, Any]


class Extender(service.Service):
    """A process. A context manager. Behaviour, all optional:

    ``passes``: nodes that pass the filter (all); ``reason``: why the others do not, ``unresolvable``: they never will;
    ``prefers``: node -> score of prioritize (others 1); ``victims``: nodes that preempt keeps (all); ``delay``: seconds
    before any answer; ``is_down``: 500 for any answer; ``claims``: a further node that passes; ``fails``: the
    ``Error`` of filter and bind; ``lower``: keys in lower case, as many extenders answer.
    """

    def __init__(self, folder: Path, kubeconfig: Path, **behaviour: Any) -> None:
        (self.port,) = free_ports(1)
        command = [sys.executable, "-m", "e2e.extender", str(self.port), str(kubeconfig), json.dumps(behaviour)]
        log = folder / f"extender-{self.port}.log"
        self.process = Process("extender", command, log, directory=Path(__file__).parent.parent)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def behave(self, **behaviour: Any) -> None:
        """Set the behaviour from now on; fields that are not stated have their defaults."""
        self._ask("PUT", "/behaviour", behaviour)

    def calls(self, verb: str | None = None) -> list[Body]:
        """The calls so far, in order: ``{"verb": ..., "body": ...}``."""
        found: list[Body] = self._ask("GET", "/calls")
        return [call for call in found if verb in (None, call["verb"])]

    def configuration(self, **more: Any) -> Body:
        """Its entry in ``extenders``; verbs are stated by the test."""
        return {"urlPrefix": self.url, **more}

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, method=method)
        with opener.open(request, timeout=5) as answer:
            return json.loads(answer.read())

    def ask(self) -> None:
        self.calls()


# --- the program ------------------------------------------------------------------------------------------------------


class Service:
    """The verbs, each after the behaviour of the moment."""

    def __init__(self, client: AsyncClient, behaviour: Body) -> None:
        self._client = client
        self._behaviour = behaviour
        self._calls: list[Body] = []

    def application(self) -> web.Application:
        application = web.Application(client_max_size=2**26)
        application.add_routes(
            [
                web.get("/calls", lambda _: self._json(self._calls)),
                web.put("/behaviour", self._change),
                web.post("/filter", self._filter),
                web.post("/prioritize", self._prioritize),
                web.post("/preempt", self._preempt),
                web.post("/bind", self._bind),
            ]
        )
        return application

    async def _json(self, content: Any) -> web.Response:
        return web.json_response(content)

    async def _change(self, request: web.Request) -> web.Response:
        self._behaviour = await request.json()
        return await self._json({})

    async def _asked(self, request: web.Request) -> Body:
        body: Body = await request.json()
        self._calls.append({"verb": request.path.lstrip("/"), "body": body})
        await asyncio.sleep(self._behaviour.get("delay", 0))
        if self._behaviour.get("is_down"):
            raise web.HTTPInternalServerError
        return body

    async def _filter(self, request: web.Request) -> web.Response:
        body = await self._asked(request)
        names = _names(body)
        passes = [name for name in names if name in self._behaviour.get("passes", names)]
        failed = {name: self._behaviour.get("reason", "not today") for name in names if name not in passes}
        if claimed := self._behaviour.get("claims"):
            passes.append(claimed)
        is_final = self._behaviour.get("unresolvable", False)
        items = [node for node in (body["Nodes"] or {}).get("items", ()) if node["metadata"]["name"] in passes]
        answer = {
            "Nodes": {"items": items} if body["NodeNames"] is None else None,
            "NodeNames": passes if body["NodeNames"] is not None else None,
            "FailedNodes": {} if is_final else failed,
            "FailedAndUnresolvableNodes": failed if is_final else {},
            "Error": self._behaviour.get("fails", ""),
        }
        return await self._json(self._spelled(answer))

    async def _prioritize(self, request: web.Request) -> web.Response:
        names = _names(await self._asked(request))
        prefers = self._behaviour.get("prefers", {})
        return await self._json([self._spelled({"Host": name, "Score": prefers.get(name, 1)}) for name in names])

    async def _preempt(self, request: web.Request) -> web.Response:
        body = await self._asked(request)
        kept = self._behaviour.get("victims")
        if body["NodeNameToMetaVictims"] is not None:
            victims = body["NodeNameToMetaVictims"]
        else:
            victims = {
                node: {
                    "Pods": [{"UID": pod["metadata"]["uid"]} for pod in of["Pods"]],
                    "NumPDBViolations": of["NumPDBViolations"],
                }
                for node, of in body["NodeNameToVictims"].items()
            }
        chosen = {node: of for node, of in victims.items() if kept is None or node in kept}
        return await self._json(self._spelled({"NodeNameToMetaVictims": chosen}))

    async def _bind(self, request: web.Request) -> web.Response:
        body = await self._asked(request)
        error = self._behaviour.get("fails", "")
        if not error:
            name, namespace = body["PodName"], body["PodNamespace"]
            binding = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name, "namespace": namespace, "uid": body["PodUID"]},
                "target": {"kind": "Node", "name": body["Node"]},
            }
            try:
                await self._client.send("POST", paths.one("Pod", name, namespace) + "/binding", binding)
            except ApiError as refusal:
                error = str(refusal)
        return await self._json(self._spelled({"Error": error}))

    def _spelled(self, answer: Body) -> Body:
        return {key.lower(): value for key, value in answer.items()} if self._behaviour.get("lower") else answer


def _names(body: Body) -> list[str]:
    if body["NodeNames"] is not None:
        return list(body["NodeNames"])
    return [node["metadata"]["name"] for node in body["Nodes"]["items"]]


async def serve(port: int, kubeconfig: Path, behaviour: Body) -> None:
    """Until killed."""
    async with AsyncClient(from_kubeconfig(kubeconfig)) as client:
        runner = web.AppRunner(Service(client, behaviour).application())
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])))
