"""Checks of plugins' answers at each point. All functions raise TypeError or ValueError with a text for the author."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any

import numpy as np

from scheduler.cluster.effects import Effect
from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource
from scheduler.framework.plugin import Finding, NodeSubset, Permitted, PreFlight, Rows, State, Verdicts, Wait
from scheduler.framework.plugin_requests import ActivatePods, PluginRequest, RejectWaiting
from scheduler.framework.post_filter import Nomination, PostFilterAnswer, Room
from scheduler.framework.sort_keys import SortKey
from scheduler.messages.status import SKIP, Code, Refusal, Skip

_REFUSING = (Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING, Code.ERROR)


def row_count(rows: Rows, size: int) -> int:
    """The number of expected answers, for a table of ``size`` rows."""
    return len(range(*rows.indices(size))) if isinstance(rows, slice) else len(rows)


def check_refusal(refusal: Any, wanted: str = "None or a Refusal") -> None:
    """Checks that a refusal's code refuses (not SUCCESS, SKIP or WAIT) and that its reasons are Unicode texts."""
    if not isinstance(refusal, Refusal):
        raise TypeError(f"answered {_shown(refusal)}; {wanted} is wanted")
    if not isinstance(refusal.code, Code):
        raise TypeError(f"answered a Refusal whose code is {_shown(refusal.code)}; a Code is wanted")
    if refusal.code not in _REFUSING:
        raise ValueError(f"answered a Refusal with the code {refusal.code.value}, which refuses nothing")
    if not isinstance(refusal.reasons, tuple) or not all(map(_is_text, refusal.reasons)):
        raise TypeError(f"answered a Refusal whose reasons are {_shown(refusal.reasons)}; a tuple of texts is wanted")


def check_optional_refusal(answer: Any) -> None:
    if answer is not None:
        check_refusal(answer)


def check_few_refusals(answer: Any, count: int) -> None:
    """Checks an answer of ``filter_few``: one per row, None if the pod fits."""
    _check_list(answer, count, "Refusals or Nones")
    for refusal in answer:
        check_optional_refusal(refusal)


def check_verdicts(answer: Any, rows: Rows, size: int) -> None:
    """Checks an answer of ``filter``: int16, one code per row, each 0 or the number of a refusal."""
    if answer is None:
        return
    if not isinstance(answer, Verdicts):
        raise TypeError(f"answered {_shown(answer)}; Verdicts or None is wanted")
    codes, refusals = answer.codes, answer.refusals
    if not isinstance(refusals, tuple | list):
        raise TypeError(f"answered the refusals {_shown(refusals)}; a tuple of Refusals is wanted")
    _check_array(codes, np.dtype(np.int16), row_count(rows, size), "codes")
    if len(codes):
        low, high = int(codes.min()), int(codes.max())
        if low < 0 or high > len(refusals):
            wrong = low if low < 0 else high
            raise ValueError(f"answered the code {wrong}, but has {len(refusals)} refusals (codes count from 1)")
    for refusal in refusals:
        check_refusal(refusal, "a tuple of Refusals")


def check_scores(answer: Any, count: int) -> None:
    """Checks an answer of ``score`` or ``normalize``: int64, one per row. The range is checked after normalising."""
    _check_array(answer, np.dtype(np.int64), count, "scores")


def check_score(answer: Any) -> None:
    """Checks an answer of ``score_one`` or ``score_row``."""
    if isinstance(answer, bool) or not isinstance(answer, int | np.integer):
        raise TypeError(f"answered the score {_shown(answer)}; a whole number is wanted")


def ordered(answer: Any) -> SortKey:
    """The answer of ``sort_key`` as a key that can be compared with every other one: numbers come before texts, and
    texts before tuples."""
    if not isinstance(answer, tuple):
        raise TypeError(f"answered the key {_shown(answer)}; a tuple is wanted")
    return tuple([_placed(part) for part in answer])


def _placed(part: Any) -> tuple[int, int | float | str | SortKey]:
    value = part.item() if isinstance(part, np.generic) else part
    if isinstance(value, int | float) and value == value:
        return 0, value
    if isinstance(value, str):
        return 1, value
    if isinstance(value, tuple):
        return 2, ordered(value)
    raise TypeError(f"answered a key with {_shown(part)}; numbers, texts and tuples of them are wanted")


def check_few_scores(answer: Any, count: int) -> None:
    """Checks an answer of ``score_few``: one per row."""
    _check_list(answer, count, "whole numbers")
    for score in answer:
        check_score(score)


def check_state(answer: Any) -> None:
    """Checks an answer of ``pre_filter`` or ``pre_score``."""
    if isinstance(answer, NodeSubset):
        # One name stands for all of them: to look at thousands would take longer than all else about the pod.
        if not isinstance(answer.names, frozenset) or not isinstance(next(iter(answer.names), ""), str):
            raise TypeError(f"answered a NodeSubset of {_shown(answer.names)}; a frozenset of names is wanted")
        if not isinstance(answer.inner, State):
            raise TypeError(f"answered a NodeSubset with the state {_shown(answer.inner)}; a State is wanted")
        _check_size(answer.inner)
    elif isinstance(answer, Refusal):
        check_refusal(answer)
    elif isinstance(answer, State):
        _check_size(answer)
    elif answer is not SKIP:
        raise TypeError(f"answered {_shown(answer)}; a State, SKIP or a Refusal is wanted")


def check_post_filter(answer: Any) -> None:
    if not isinstance(answer, PostFilterAnswer):
        raise TypeError(f"answered {_shown(answer)}; a PostFilterAnswer is wanted")
    check_optional_refusal(answer.status)
    nomination: Any = answer.nomination
    if not isinstance(nomination, Nomination) or not _is_text(nomination.node_name):
        raise TypeError(f"answered the nomination {_shown(nomination)}; nominate(node) or its like is wanted")
    if answer.room is not None and not isinstance(answer.room, Room):
        raise TypeError(f"answered the room {_shown(answer.room)}; None is wanted")
    if answer.writes != ():
        raise TypeError(f"answered the writes {_shown(answer.writes)}, which are for built-in plugins; () is wanted")


def check_effects(answer: Any) -> None:
    """Checks an answer of ``unreserve``, or of a ``reserve`` that does not refuse."""
    if not isinstance(answer, tuple) or not all(isinstance(one, Effect | PluginRequest) for one in answer):
        raise TypeError(f"answered {_shown(answer)}; a tuple of Effects or requests is wanted")
    check_requests(tuple(one for one in answer if isinstance(one, PluginRequest)))


def check_requests(requests: Any) -> None:
    """Checks an answer of ``permit``, or the requests among the effects of ``reserve`` and ``unreserve``."""
    if not isinstance(requests, tuple) or not all(isinstance(one, PluginRequest) for one in requests):
        raise TypeError(f"answered the requests {_shown(requests)}; a tuple of requests is wanted")
    for one in requests:
        names = one.keys if isinstance(one, ActivatePods) else (one.uid,)
        if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
            raise TypeError(f"answered {_shown(one)}, which names no pod")
        if isinstance(one, RejectWaiting) and not _is_text(one.message):
            raise TypeError(f"answered {_shown(one)}, whose message is no text")


def check_reserve(answer: Any) -> None:
    if isinstance(answer, Refusal):
        check_refusal(answer)
    else:
        check_effects(answer)


def check_permit(answer: Any) -> None:
    if isinstance(answer, Wait):
        seconds = answer.timeout_seconds
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
            raise ValueError(f"answered a Wait of {_shown(seconds)} seconds; a number above 0 is wanted")
        check_requests(answer.requests)
    elif isinstance(answer, Permitted):
        check_requests(answer.requests)
    elif answer is not None:
        check_refusal(answer, "None, Permitted, a Wait or a Refusal")


def check_pre_flight(answer: Any) -> None:
    if isinstance(answer, Refusal):
        check_refusal(answer)
    elif not isinstance(answer, PreFlight) and answer is not SKIP:
        raise TypeError(f"answered {_shown(answer)}; a PreFlight, SKIP or a Refusal is wanted")
    elif isinstance(answer, PreFlight) and answer != PreFlight(bool(answer.is_parallel)):
        # The rest is for built-in plugins: the engine would send writes of its own, or never run ``pre_bind``.
        raise TypeError(f"answered {_shown(answer)}, where no more than is_parallel may be stated")


def check_progress(answer: Any) -> None:
    if not isinstance(answer, bool):
        check_refusal(answer, "True, False or a Refusal")


def check_call(answer: Any, may_skip: bool) -> None:
    """Checks an answer of the coroutines that run in the shell."""
    if may_skip and isinstance(answer, Skip):
        return
    if answer is not None:
        check_refusal(answer, "None, SKIP or a Refusal" if may_skip else "None or a Refusal")


def check_fragment(answer: Any) -> None:
    if not isinstance(answer, Hashable):
        raise TypeError(f"answered {_shown(answer)}; something hashable is wanted")
    hash(answer)


def check_truth(answer: Any) -> None:
    """Checks that an answer counts as true or false: an array of several values does not."""
    bool(answer)


def check_uids(answer: Any) -> None:
    """Checks an answer of ``held_back``, of which each wake reads what it needs: a generator could be read once."""
    if not isinstance(answer, Collection) or not all(isinstance(uid, str) for uid in answer):
        raise TypeError(f"answered {_shown(answer)}; a collection of UIDs is wanted")


def check_events(answer: Any) -> None:
    if not isinstance(answer, tuple) or not all(isinstance(one, EventRegistration) for one in answer):
        raise TypeError(f"answered {_shown(answer)}; a tuple of EventRegistrations is wanted")
    for one in answer:
        if not isinstance(one.event, ClusterEvent):
            raise TypeError(f"answered a registration of {_shown(one.event)}; a ClusterEvent is wanted")
        if not isinstance(one.event.resource, Resource) or not isinstance(one.event.action, Action):
            raise TypeError(f"answered a registration of {_shown(one.event)}; a Resource and an Action are wanted")


def check_findings(answer: Any) -> None:
    """Checks an answer of ``findings`` or ``why_not``, which pages show."""
    if not isinstance(answer, tuple) or not all(isinstance(one, Finding) for one in answer):
        raise TypeError(f"answered {_shown(answer)}; a tuple of Findings is wanted")
    for one in answer:
        texts = (one.nodes, one.lines)
        if not isinstance(one.count, int) or not all(
            isinstance(each, tuple) and all(map(_is_text, each)) for each in texts
        ):
            raise TypeError(f"answered {_shown(one)}; a Finding of a number and tuples of texts is wanted")


def check_hint(answer: Any) -> None:
    """Checks an answer of a queueing hint."""
    if not isinstance(answer, Hint):
        raise TypeError(f"answered {_shown(answer)}; a Hint is wanted")


def _check_size(state: State) -> None:
    """Checks the size of a State, which is read later, as another pod is tried."""
    size: Any = state.nbytes
    if not isinstance(size, int | np.integer) or size < 0:
        raise TypeError(f"answered a State whose nbytes is {_shown(size)}; a property with a whole number is wanted")


def _check_list(answer: Any, count: int, wanted: str) -> None:
    if not isinstance(answer, list):
        raise TypeError(f"answered {_shown(answer)}; a list of {wanted} is wanted")
    if len(answer) != count:
        raise ValueError(f"answered {len(answer)} {wanted} for {count} rows")


def _check_array(array: Any, dtype: np.dtype[Any], count: int, what: str) -> None:
    if not isinstance(array, np.ndarray):
        raise TypeError(f"answered {what} of type {type(array).__name__}; a numpy array is wanted")
    if array.dtype != dtype:
        nan = " (some are NaN)" if array.dtype.kind == "f" and bool(np.isnan(array).any()) else ""
        raise TypeError(f"answered {what} of type {array.dtype}{nan}; {dtype} is wanted")
    if array.shape != (count,):
        raise ValueError(f"answered {what} of shape {array.shape} for {count} rows")


def _is_text(value: Any) -> bool:
    """Whether the text can be sent as UTF-8: half of a surrogate pair can't."""
    return isinstance(value, str) and (value.isascii() or not any(map(_is_surrogate, value)))


def _is_surrogate(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:76]} ..."
