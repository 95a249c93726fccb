"""The questions' pages, answered in slices between the steps of the scheduling loop.

``POST /debug/what-if`` and ``POST /debug/what-helps`` take a right of their own (``create`` on the path), ``GET
/debug/capacity`` takes ``get``. One question at a time a user, a few at a time in all, limits in bytes, steps and
seconds; not for other sites. Nothing of the scheduler's state changes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Generator
from typing import Any, Final, TypeVar

import msgspec
import structlog
from aiohttp import web
from msgspec import Struct

from scheduler.controller.serve.authorization import ASKER, Asker, refusal
from scheduler.controller.serve.names import scrubbed, visible
from scheduler.controller.serve.redaction import (
    capacity_without_names,
    helps_without_names,
    namespaces_in,
    namespaces_of_edits,
    namespaces_of_helps,
    namespaces_of_shapes,
    without_names,
)
from scheduler.controller.serve.reviews import TooManyReviews
from scheduler.controller.serve.same_origin import is_json, why_refused
from scheduler.controller.threads import in_thread
from scheduler.engine.engine import Engine
from scheduler.engine.questions.answers import ASKED, Answer
from scheduler.engine.questions.capacity import Capacity, capacity
from scheduler.engine.questions.edits import WrongQuestion
from scheduler.engine.questions.helps import Helps
from scheduler.engine.questions.names import shown
from scheduler.engine.questions.question import Question
from scheduler.engine.questions.trial import Basis
from scheduler.engine.questions.what_helps import what_helps
from scheduler.engine.questions.what_if import what_if
from scheduler.errors import ApiError, ConfigurationError
from scheduler.messages.now import Now
from scheduler.objects.salvage import DECODER_ERRORS, reason_of

MAX_BODY_BYTES: Final = 2**20
MAX_DISCARDED_BYTES: Final = 4 * MAX_BODY_BYTES
MAX_CONFIGURATION_CHARACTERS: Final = 2**16
MAX_POOL_LABELS: Final = 5
MAX_SECONDS: Final = 5.0
"""Seconds until a question gives what it has found so far."""
BODY_SECONDS: Final = 10.0
MAX_AT_ONCE: Final = 4
SLICE_SECONDS: Final = 0.002
"""Seconds of answering before the event loop has a turn; one step may take longer."""

Result = TypeVar("Result")
MakeBasis = Callable[[bytes], Callable[[], Basis]]
"""Reads configuration files, in a thread; what it returns makes profiles of them. Both raise ConfigurationError."""

log = structlog.get_logger()


class QuestionCounts(Struct):
    """``longest_seconds``: of a slice."""

    answered: int = 0
    longest_seconds: float = 0.0


class Questions:
    """Answers questions about an engine. ``own_name``: this host's name, for the check of the Host header."""

    def __init__(self, engine: Engine, clock: Callable[[], Now], make_basis: MakeBasis, own_name: str = "") -> None:
        self.counts = QuestionCounts()
        self._engine = engine
        self._clock = clock
        self._make_basis = make_basis
        self._own_name = own_name
        self._asking: set[str] = set()

    @property
    def under_way(self) -> int:
        """The number of questions that are being answered."""
        return len(self._asking)

    def routes(self) -> tuple[web.RouteDef, ...]:
        return (
            web.post("/debug/what-if", self.what_if),
            web.post("/debug/what-helps", self.what_helps),
            web.get("/debug/capacity", self.capacity),
        )

    async def capacity(self, request: web.Request) -> web.Response:
        """Answer ``GET /debug/capacity?pool=LABEL[,LABEL]``: the labels name a pool."""
        return await self._answered(request, self._capacity)

    async def _capacity(self, request: web.Request, _body: bytes) -> web.Response:
        labels = [label for label in request.query.get("pool", "").split(",") if label]
        if len(labels) > MAX_POOL_LABELS:
            raise WrongQuestion(f"pools by {len(labels)} labels: at most {MAX_POOL_LABELS} name a pool")
        answer: Capacity = await self._in_slices(request, capacity(self._engine, self._clock(), labels))
        allowed = await visible(request, namespaces_of_shapes(answer))
        return await _shown(request, answer if allowed is None else capacity_without_names(answer, allowed))

    async def what_if(self, request: web.Request) -> web.Response:
        return await self._answered(request, self._what_if)

    async def what_helps(self, request: web.Request) -> web.Response:
        return await self._answered(request, self._what_helps)

    async def _what_helps(self, request: web.Request, body: bytes) -> web.Response:
        key = _decoded(body, _ABOUT_POD).pod
        namespace = key.partition("/")[0]
        allowed = await visible(request, (namespace,))
        if allowed is not None and namespace not in allowed:
            raise WrongQuestion(f"pod {shown(key)} is not known here")
        end = time.monotonic() + MAX_SECONDS
        steps = what_helps(self._engine, key, self._clock(), lambda: time.monotonic() > end)
        answer: Helps = await self._in_slices(request, steps)
        allowed = await visible(request, namespaces_of_helps(answer))
        return await _shown(request, answer if allowed is None else helps_without_names(answer, allowed))

    async def _what_if(self, request: web.Request, body: bytes) -> web.Response:
        question = _decoded(body, _QUESTION)
        changed = namespaces_of_edits(question)
        allowed = await visible(request, changed)
        if allowed is not None and not set(changed) <= set(allowed):
            raise WrongQuestion("it changes objects of a namespace whose pods you may not see")
        basis = None
        if question.configuration:
            if len(question.configuration) > MAX_CONFIGURATION_CHARACTERS:
                raise WrongQuestion(f"the configuration has more than {MAX_CONFIGURATION_CHARACTERS} characters")
            text = question.configuration.encode(errors="surrogatepass")
            basis = (await in_thread(self._make_basis, text))()
        end = time.monotonic() + MAX_SECONDS
        steps = what_if(self._engine, question, self._clock(), basis, lambda: time.monotonic() > end)
        answer: Answer = await self._in_slices(request, steps)
        allowed = await visible(request, namespaces_in(answer))
        asked = {one.pod for one in answer.placements if one.origin == ASKED} | {one.workload for one in answer.room}
        return await _shown(request, answer if allowed is None else without_names(answer, allowed), asked)

    # --- what all questions share -------------------------------------------------------------------------------------

    async def _answered(self, request: web.Request, ask: Callable[[web.Request, bytes], Any]) -> web.Response:
        """The answer, or the refusal that a wrong, unwanted or failed question gets."""
        why = why_refused(request, self._own_name)
        if why:
            return refusal(403, "Forbidden", why)
        if request.method == "POST" and not is_json(request):
            return refusal(415, "UnsupportedMediaType", "the body must be application/json, not packed")
        asker: Asker | None = request.get(ASKER)
        user = asker.who.name if asker is not None else request.remote or ""
        if user in self._asking or len(self._asking) >= MAX_AT_ONCE:
            whose = "your last question" if user in self._asking else f"{MAX_AT_ONCE} questions"
            answer = refusal(429, "TooManyRequests", f"{whose} must be answered first")
            answer.headers["Retry-After"] = "1"
            return answer
        self._asking.add(user)
        try:
            return await self._ask(request, ask)
        finally:
            self._asking.discard(user)

    async def _ask(self, request: web.Request, ask: Callable[[web.Request, bytes], Any]) -> web.Response:
        try:
            body = await _limited_body(request)
            if not self._engine.is_synced:
                return refusal(503, "ServiceUnavailable", "the first lists are not complete yet")
            answer: web.Response = await ask(request, body)
        except WrongQuestion as error:
            return refusal(400, "BadRequest", str(error))
        except ConfigurationError as error:
            return refusal(400, "BadRequest", "; ".join(str(fault) for fault in error.faults))
        except (ApiError, TooManyReviews) as error:
            log.warning("Question refused: the API server can't be asked what may be shown", error=str(error))
            return refusal(500, "InternalError", "the API server can't be asked what may be shown")
        self.counts.answered += 1
        return answer

    async def _in_slices(self, request: web.Request, steps: Generator[None, None, Result]) -> Result:
        """Run to the end, with a turn of the event loop after each slice. Stops when the client has gone."""
        while True:
            began = time.monotonic()
            try:
                while time.monotonic() - began < SLICE_SECONDS:
                    next(steps)
            except StopIteration as end:
                result: Result = end.value
                return result
            finally:
                self.counts.longest_seconds = max(self.counts.longest_seconds, time.monotonic() - began)
            if request.transport is None or request.transport.is_closing():
                steps.close()
                raise WrongQuestion("the client has gone")
            await asyncio.sleep(0)


async def _limited_body(request: web.Request) -> bytes:
    """The body. Raises WrongQuestion beyond the limit; some more is read then, so that the client sees the answer."""
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.content.iter_any():
                size += len(part)
                if size > MAX_DISCARDED_BYTES:
                    break
                if size <= MAX_BODY_BYTES:
                    parts.append(part)
    except TimeoutError:
        raise WrongQuestion(f"the question did not arrive within {BODY_SECONDS:g} s") from None
    except ConnectionError:
        raise WrongQuestion("the client has gone") from None
    if size > MAX_BODY_BYTES:
        raise WrongQuestion(f"the question has more than {MAX_BODY_BYTES} bytes")
    return b"".join(parts)


def _decoded(body: bytes, decoder: msgspec.json.Decoder[Result]) -> Result:
    try:
        return decoder.decode(body)
    except DECODER_ERRORS as error:
        text = reason_of(error) if isinstance(error, msgspec.MsgspecError | RecursionError) else type(error).__name__
        raise WrongQuestion(f"the question can't be read: {ascii(text)[1:-1][:500]}") from error


async def _shown(request: web.Request, answer: msgspec.Struct, own: Collection[str] = ()) -> web.Response:
    """The answer without names in its texts that the asker may not see."""
    return web.Response(body=await scrubbed(request, answer, own), content_type="application/json")


class _AboutPod(msgspec.Struct, forbid_unknown_fields=True):
    pod: str


_QUESTION: Final = msgspec.json.Decoder(Question)
_ABOUT_POD: Final = msgspec.json.Decoder(_AboutPod)
