from tandem_plugin_example.licence_tokens import LICENCE, LicenceTokens, LicenceTokensArgs

from scheduler.plugin import Hint, PodInfo
from scheduler.testing import Cluster, check_contract, filter_answers, node, pod

TWO = LicenceTokens(LicenceTokensArgs({"matlab": 2}))
NODES = [node("a"), node("b")]


def holder(name: str, on: str = "", licence: str = "matlab"):
    return pod(name, labels={LICENCE: licence}, node=on) if on else pod(name, labels={LICENCE: licence})


def refused(waiting, *placed) -> set[str]:
    return set(filter_answers(TWO, PodInfo(waiting), Cluster(NODES, placed).view()))


def test_it_keeps_the_plugin_contract() -> None:
    check_contract(LicenceTokens())
    check_contract(TWO)
    check_contract(TWO, [Cluster(NODES, [holder("x", "a"), holder("y", "b")], [holder("p"), pod("q")])])


def test_while_a_token_is_left_every_node_will_do() -> None:
    assert refused(holder("p"), holder("x", "a")) == set()


def test_without_a_token_no_node_will_do_whichever_the_tokens_are_on() -> None:
    assert refused(holder("p"), holder("x", "a"), holder("y", "a")) == {"a", "b"}


def test_pods_without_a_licence_or_of_an_unlisted_one_are_not_held_back() -> None:
    placed = [holder("x", "a"), holder("y", "a")]
    assert refused(pod("p"), *placed) == set()
    assert refused(holder("p", licence="other"), *placed) == set()


def test_a_pod_that_ends_wakes_those_of_its_licence() -> None:
    (registration,) = TWO.events()
    waiting, ended = PodInfo(holder("p")), PodInfo(holder("x", "a"))
    assert registration.hint(waiting, ended, None) is Hint.QUEUE
    assert registration.hint(PodInfo(holder("q", licence="other")), ended, None) is Hint.SKIP


def test_a_negative_number_of_tokens_is_refused() -> None:
    faults = LicenceTokens.validate_args(LicenceTokensArgs({"matlab": -1}), "args")
    assert faults == (("args.tokens[matlab]", "must not be negative"),)
