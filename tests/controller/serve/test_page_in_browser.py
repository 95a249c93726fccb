"""The page in a real browser: every view with data, changes as they come, hostile names, many nodes and pods.

``PICTURES=docs/pictures`` also takes the pictures of the docs.
"""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from scheduler import testing
from scheduler.cli.main import main
from scheduler.controller.beside.shadow import Comparison
from scheduler.controller.serve.live import LiveLimits
from scheduler.messages.stimuli import ObjectObserved, Synced
from scheduler.objects.kinds import kind_of
from tests.controller.serve.browser import browsing, needs_browser
from tests.controller.serve.page_server import Served, page_server
from tests.engine.driver import Cluster

pytestmark = needs_browser

LIMITS = LiveLimits(look_seconds=0.05)
SCRIPT = "<img src=x onerror=alert(1)><script>alert(2)</script>"
LONG = "a" * 253
REVERSED = "\u202egnp.exe"
VIEWS = (
    "",
    "queue",
    "decisions",
    "what-if",
    "capacity",
    "shadow",
    "pod/default/huge",
    "pod/default/vip",
    "helps/default/huge",
    "node/big-0",
)
PICTURED = {"": "overview", "queue": "queue", "pod/default/vip": "pod"}


def shop() -> Cluster:
    """Two pools, a cordoned node, pods that run and a big one that waits."""
    cluster = Cluster()
    for number in range(24):
        cluster.node(f"small-{number}", cpu="4", memory="16Gi", labels={"pool": "small"}, unschedulable=number == 5)
    for number in range(8):
        cluster.node(f"big-{number}", cpu="16", memory="64Gi", labels={"pool": "big"}, taints=["gpu=yes:NoSchedule"])
    for number in range(40):
        cluster.pod(f"web-{number}", cpu=f"{1 + number % 3}", memory=f"{1 + number % 4}Gi", node=f"small-{number % 24}")
    for number in range(12):
        cluster.pod(f"train-{number}", cpu="6", memory="20Gi", node=f"big-{number % 5}")
    cluster.pod("huge", cpu="30", memory="1Gi")
    return cluster


def busy(served: Served) -> None:
    """The big pod is tried, some small ones are placed, one preempts."""
    cluster = served.cluster
    served.schedule()
    for number in range(10):
        cluster.pod(f"api-{number}", cpu="500m", memory="512Mi")
        served.schedule()
    cluster.pod("vip", cpu="4", memory="1Gi", priority=1000)
    served.schedule()
    served.schedule()
    served.shadow.comparisons += [
        Comparison("default/api-1", "true", "small-1", "small-1"),
        Comparison("default/api-2", "false", "small-2", "small-9"),
        Comparison("default/api-3", "unknown", "small-3", ""),
    ]


async def test_every_view_shows_its_data_without_an_error_and_without_another_server() -> None:
    expected = {
        "": "nodes 32",
        "queue": "default/huge",
        "decisions": "default/api-9",
        "what-if": "Nothing happens in the cluster",
        "capacity": "Most on one node",
        "shadow": "✗ differs",
        "pod/default/huge": "Insufficient cpu",
        "pod/default/vip": "candidates",
        "helps/default/huge": "Then it goes to",
        "node/big-0": "default/train-0",
    }
    async with page_server(shop(), limits=LIMITS) as served:
        busy(served)
        async with browsing(served.url) as browser:
            for address, text in expected.items():
                await browser.go(address)
                await browser.page.locator("main", has_text=text).wait_for()
                await browser.picture(
                    address.partition("/")[0] + ("-preempts" if "vip" in address else "") or "overview"
                )
            assert await browser.page.locator("#live").inner_text() != ""
            assert browser.errors == []


async def test_a_decision_and_a_change_of_the_queue_are_seen_as_they_come() -> None:
    async with page_server(shop(), limits=LIMITS) as served, browsing(served.url) as browser:
        await browser.go("decisions")
        served.cluster.pod("late", cpu="1")
        for _ in range(2):
            served.schedule()
        await browser.page.wait_for_selector("main a:has-text('default/late')", timeout=10_000)
        await browser.go("queue")
        await browser.page.wait_for_selector("main a:has-text('default/huge')")
        served.cluster.delete("huge")
        await browser.page.wait_for_selector("main a:has-text('default/huge')", state="detached", timeout=10_000)
        await browser.page.locator("#live", has_text="unschedulable 0").wait_for()
        assert browser.errors == []


async def test_a_copy_that_does_not_lead_says_so_above_every_view_until_it_leads() -> None:
    async with page_server(shop(), limits=LIMITS) as served, browsing(served.url) as browser:
        served.is_leading = False
        for address in ("", "queue", "decisions", "pod/default/huge"):
            await browser.go(address)
            said = browser.page.get_by_role("status").filter(has_text="This copy does not lead: it tries no pod")
            await said.wait_for(timeout=10_000)
        served.is_leading = True
        await said.wait_for(state="detached", timeout=10_000)
        assert not await browser.page.locator("#standby").is_visible()
        assert browser.errors == []


async def test_a_stream_that_ends_is_opened_again_without_an_error() -> None:
    limits = LiveLimits(stream_seconds=0.3, look_seconds=0.05)
    async with page_server(shop(), limits=limits) as served, browsing(served.url) as browser:
        await browser.go("decisions")
        await browser.page.wait_for_timeout(1500)
        served.schedule()
        await browser.page.wait_for_selector("main a:has-text('default/huge')", timeout=10_000)
        assert browser.errors == []


async def test_hostile_names_are_texts_and_break_no_view() -> None:
    cluster = Cluster()
    cluster.node(SCRIPT, cpu="4", labels={"pool": SCRIPT, SCRIPT: REVERSED}, taints=[f"{SCRIPT}:PreferNoSchedule"])
    cluster.node(LONG, cpu="4")
    cluster.node(REVERSED, cpu="4")
    cluster.pod(LONG, cpu="9")
    cluster.pod(SCRIPT, cpu="9")
    cluster.pod(REVERSED, cpu="9")
    cluster.pod("runs", cpu="1", node=SCRIPT)
    async with page_server(cluster, limits=LIMITS) as served, browsing(served.url, width=800) as browser:
        for _ in range(3):
            served.schedule()
        for address in (
            "",
            "queue",
            "decisions",
            f"pod/default/{LONG}",
            "node/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E%3Cscript%3Ealert(2)%3C%2Fscript%3E",
        ):
            await browser.go(address)
            await browser.page.wait_for_timeout(300)
            assert await browser.page.locator("main img, main script").count() == 0
            assert not await browser.overflows(), address
        assert SCRIPT in await browser.text()
        await browser.go("queue")
        isolated = browser.page.locator("main td bdi", has_text="gnp.exe").first
        assert await isolated.evaluate("one => getComputedStyle(one).unicodeBidi") == "isolate"
        await browser.page.locator("main a", has_text="onerror").first.click()
        await browser.page.wait_for_selector("main h2:has-text('onerror')")
        assert "Insufficient cpu" in await browser.text()
        assert browser.errors == []


async def test_markup_that_got_in_all_the_same_would_not_run() -> None:
    async with page_server(shop(), limits=LIMITS) as served, browsing(served.url) as browser:
        await browser.go("")
        attempt = """() => { try { document.querySelector('main').innerHTML = '<b onclick="x">x</b>'; return 'made' }
            catch (error) { return error.name } }"""
        assert await browser.page.evaluate(attempt) == "TypeError"
        load = """() => new Promise((done) => { const made = document.createElement('img');
            made.onerror = () => done('refused'); made.onload = () => done('loaded');
            made.src = 'data:image/gif;base64,R0lGODlhAQABAAAAACw='; document.body.append(made) })"""
        assert await browser.page.evaluate(load) == "refused"


async def test_dark_and_narrow_windows_show_every_view_without_scrolling_sideways() -> None:
    async with page_server(shop(), limits=LIMITS) as served:
        busy(served)
        async with browsing(served.url, width=360, height=740, color_scheme="dark") as browser:
            for address in VIEWS:
                await browser.go(address)
                await browser.page.wait_for_timeout(200)
                assert not await browser.overflows(), address
                if not address:
                    await browser.picture("dark-narrow")
            background = "getComputedStyle(document.body).backgroundColor"
            dark = await browser.page.evaluate(background)
            await browser.page.emulate_media(color_scheme="light")
            assert await browser.page.evaluate(background) != dark
            assert browser.errors == []


async def test_the_keyboard_is_enough() -> None:
    async with page_server(shop(), limits=LIMITS) as served, browsing(served.url) as browser:
        await browser.go("")
        keyboard = browser.page.keyboard
        await keyboard.press("Tab")
        assert await browser.page.evaluate("document.activeElement.className") == "skip"
        await browser.page.wait_for_selector("#map")
        await browser.page.focus("#map")
        await keyboard.press("ArrowRight")
        await keyboard.press("ArrowRight")
        assert "% of cpu taken" in await browser.page.inner_text("#map-said")
        await keyboard.press("Enter")
        await browser.page.wait_for_selector("main h2:has-text('Node')")
        await keyboard.press("/")
        await keyboard.type("default/huge")
        await keyboard.press("Enter")
        await browser.page.wait_for_selector("main h2:has-text('default/huge')")
        assert browser.errors == []


async def test_the_form_asks_what_if_and_shows_the_answer() -> None:
    async with page_server(shop(), limits=LIMITS) as served, browsing(served.url) as browser:
        await browser.go("what-if")
        await browser.page.fill("#ask-replicas", "3")
        await browser.page.select_option("#ask-edit", "drain")
        await browser.page.fill("#ask-target", "small-1")
        await browser.page.click("form.question > button")
        await browser.page.wait_for_selector("#answer .verdict")
        text = await browser.text()
        assert "default/asked-1" in text
        assert "small-1" in text
        await browser.picture("what-if")
        assert browser.errors == []
        await browser.page.click("form.question summary")
        await browser.page.fill("#ask-json", "{")
        await browser.page.click("form.question > button")
        await browser.page.wait_for_selector("#answer .failure")
        assert "the JSON can't be read" in await browser.text()
        await browser.page.fill("#ask-json", '{"edits": [{"edit": "drain", "node": "absent"}]}')
        await browser.page.click("form.question > button")
        await browser.page.locator("#answer", has_text="node 'absent' is not known").wait_for()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("capacity", ("capacity",)),
        ("helps/default/huge", ("why", "huge", "--what-helps")),
    ],
)
async def test_a_question_s_view_shows_the_very_json_that_the_command_line_prints(
    capfd: pytest.CaptureFixture[str], address: str, words: tuple[str, ...]
) -> None:
    async with page_server(shop(), limits=LIMITS) as served:
        busy(served)
        async with browsing(served.url) as browser:
            await browser.go(address)
            await browser.page.click("main details > summary")
            shown = json.loads(await browser.page.inner_text("main pre.json"))
            assert browser.errors == []
        code = await asyncio.to_thread(main, [*words, "--server", served.url, "--json"])
        assert code == 0
        assert shown == json.loads(capfd.readouterr().out)


async def test_capacity_is_counted_again_by_other_labels() -> None:
    async with page_server(shop(), limits=LIMITS) as served, browsing(served.url) as browser:
        await browser.go("capacity")
        await browser.page.locator("main", has_text="All nodes are one pool").wait_for()
        await browser.page.fill("#capacity-pool", "pool")
        await browser.page.keyboard.press("Enter")
        await browser.page.locator("main h3", has_text="small: 24 nodes").wait_for()
        assert "✗" not in await browser.text()
        assert "1 cordoned" in await browser.text()
        await browser.picture("capacity")
        assert browser.errors == []


async def test_a_waiting_pod_s_story_leads_to_what_would_help() -> None:
    async with page_server(shop(), limits=LIMITS) as served, browsing(served.url) as browser:
        busy(served)
        await browser.go("pod/default/huge")
        await browser.page.click("main a:has-text('What would help?')")
        await browser.page.locator("main", has_text="Then it goes to").wait_for()
        await browser.picture("helps")
        await browser.go("pod/default/api-1")
        await browser.page.wait_for_selector("main h2:has-text('api-1')")
        assert await browser.page.locator("main a", has_text="What would help?").count() == 0
        await browser.page.goto(f"{served.url}/ui/#/helps/default/absent")
        await browser.page.locator("main .failure", has_text="is not known here").wait_for()


async def test_five_thousand_nodes_and_ten_thousand_waiting_pods_are_usable() -> None:
    cluster = Cluster()
    engine, now = cluster.engine, cluster.now
    for number in range(5_000):
        node = testing.node(f"node-{number:04}", cpu="8", memory="32Gi", zone=f"zone-{number % 3}")
        engine.handle(ObjectObserved(kind_of(node), node), now)
    for number in range(20_000):
        pod = testing.pod(f"r{number}", cpu="1", memory="1Gi", node=f"node-{number * 7 % 5000 * (number % 3) // 3:04}")
        engine.handle(ObjectObserved(kind_of(pod), pod), now)
    for number in range(10_000):
        pod = testing.pod(f"w{number}", cpu="9")
        engine.handle(ObjectObserved(kind_of(pod), pod), now)
    engine.handle(Synced(), now)
    async with page_server(cluster, limits=LIMITS) as served, browsing(served.url) as browser:
        await browser.go("")
        await browser.page.wait_for_selector("#map[width]")
        paint = await browser.page.evaluate(
            "performance.getEntriesByType('paint').find((one) => one.name === 'first-contentful-paint').startTime"
        )
        drawn = await browser.page.evaluate("performance.now()")
        await browser.picture("5000-nodes")
        began = time.monotonic()
        await browser.page.focus("#map")
        await browser.page.keyboard.press("ArrowRight")
        moved = 1000 * (time.monotonic() - began)
        assert "node-" in await browser.page.inner_text("#map-said")
        began = time.monotonic()
        await browser.page.goto(f"{served.url}/ui/#/queue")
        await browser.page.wait_for_selector("main td")
        queue = 1000 * (time.monotonic() - began)
        assert "10000" in await browser.text()
        print(f"first paint {paint:.0f} ms, map {drawn:.0f} ms, a key {moved:.0f} ms, queue {queue:.0f} ms")
        assert paint < 5_000, "about 0.2 s on a quiet machine"
        assert drawn < 20_000
        assert browser.errors == []
