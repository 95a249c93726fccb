"""Merging with the defaults, and the expansion of multiPoint."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.config.plugin_sets import EnabledPlugin, Expansion, expand, merge_plugin_sets
from scheduler.config.points import PluginEntry, Plugins, PluginSet, Point

# Which points the plugins of these tests take part in.
POINTS = {
    "Sort": {Point.QUEUE_SORT},
    "Fit": {Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE},
    "Taint": {Point.FILTER, Point.SCORE},
    "Spread": {Point.FILTER, Point.SCORE},
    "Extra": {Point.FILTER, Point.SCORE},
    "Bind": {Point.BIND},
}


def plugin_set(enabled: str = "", disabled: str = "") -> PluginSet:
    """``Fit:5 Taint`` enables Fit with weight 5, and Taint without one."""
    entries = [word.partition(":") for word in enabled.split()]
    return PluginSet(
        tuple(PluginEntry(name, int(weight or 0)) for name, _, weight in entries),
        tuple(PluginEntry(name) for name in disabled.split()),
    )


DEFAULT = plugin_set("Sort Fit:1 Taint:3 Spread:2 Bind")


def expanded(multi_point: PluginSet = DEFAULT, **points: PluginSet) -> Expansion:
    plugins = Plugins(multi_point=multi_point, **points)
    return expand(plugins, lambda name, point: point in POINTS[name], POINTS.keys(), "s")


def names(expansion: Expansion, point: Point) -> str:
    return " ".join(f"{plugin.name}:{plugin.weight}" for plugin in expansion.points[point])


def texts(expansion: Expansion) -> list[str]:
    return [str(fault) for fault in expansion.faults]


def written(merged: PluginSet) -> str:
    return " ".join(f"{entry.name}:{entry.weight}" for entry in merged.enabled)


def test_a_default_enabled_again_keeps_its_place_with_the_users_weight() -> None:
    assert written(merge_plugin_sets(plugin_set("Taint:9"), DEFAULT)) == "Sort:0 Fit:1 Taint:9 Spread:2 Bind:0"


def test_a_default_enabled_again_without_weight_loses_the_defaults_weight() -> None:
    merged = merge_plugin_sets(plugin_set("Taint"), DEFAULT)
    assert names(expanded(merged), Point.SCORE) == "Fit:1 Taint:1 Spread:2"


def test_a_default_disabled_and_enabled_moves_to_the_end() -> None:
    merged = merge_plugin_sets(plugin_set("Taint:3", "Taint"), DEFAULT)
    assert written(merged) == "Sort:0 Fit:1 Spread:2 Bind:0 Taint:3"


def test_other_plugins_follow_the_defaults_in_the_users_order() -> None:
    merged = merge_plugin_sets(plugin_set("Z Taint:4 A"), DEFAULT)
    assert written(merged) == "Sort:0 Fit:1 Taint:4 Spread:2 Bind:0 Z:0 A:0"


def test_a_star_drops_all_defaults() -> None:
    merged = merge_plugin_sets(plugin_set("Bind Sort", "*"), DEFAULT)
    assert written(merged) == "Bind:0 Sort:0"


def test_of_a_plugin_enabled_twice_the_last_takes_the_place_and_the_first_stays() -> None:
    merged = merge_plugin_sets(plugin_set("Taint:4 Taint:5"), DEFAULT)
    assert written(merged) == "Sort:0 Fit:1 Taint:5 Spread:2 Bind:0 Taint:4"
    assert 'plugin "Taint" already registered as "FilterPlugin"' in texts(expanded(merged))


def test_what_the_default_set_disables_stays_disabled() -> None:
    merged = merge_plugin_sets(plugin_set("A", "B"), plugin_set("C", "D"))
    assert [entry.name for entry in merged.disabled] == ["B", "D"]


SETS = st.builds(
    lambda enabled, disabled: plugin_set(
        " ".join(f"{name}:{weight}" for name, weight in enabled.items()), " ".join(sorted(disabled))
    ),
    st.dictionaries(st.sampled_from(["Sort", "Fit", "Taint", "Spread", "Bind", "X", "Y"]), st.integers(0, 9)),
    st.sets(st.sampled_from(["Sort", "Fit", "Taint", "Spread", "Bind", "X", "Y", "*"])),
)


@given(SETS)
def test_merging_a_merged_set_again_changes_nothing(user: PluginSet) -> None:
    merged = merge_plugin_sets(user, DEFAULT)
    assert merge_plugin_sets(merged, DEFAULT) == merged


def test_multi_point_plugins_run_wherever_they_take_part() -> None:
    expansion = expanded()
    assert expansion.faults == ()
    assert names(expansion, Point.FILTER) == "Fit:1 Taint:3 Spread:2"
    assert names(expansion, Point.PRE_FILTER) == "Fit:1"
    assert names(expansion, Point.BIND) == "Bind:1"
    assert expansion.points[Point.PERMIT] == ()


def test_a_plugin_named_at_score_moves_to_the_front_of_score_only() -> None:
    expansion = expanded(score=plugin_set("Spread:5"))
    assert names(expansion, Point.SCORE) == "Spread:5 Fit:1 Taint:3"
    assert names(expansion, Point.FILTER) == "Fit:1 Taint:3 Spread:5"


def test_a_plugin_that_only_the_point_names_comes_last() -> None:
    expansion = expanded(filter=plugin_set("Extra Taint"))
    assert [plugin.name for plugin in expansion.points[Point.FILTER]] == ["Taint", "Fit", "Spread", "Extra"]


def test_a_point_that_disables_a_plugin_does_not_get_it_from_multi_point() -> None:
    expansion = expanded(score=plugin_set(disabled="Taint"))
    assert names(expansion, Point.SCORE) == "Fit:1 Spread:2"
    assert names(expansion, Point.FILTER) == "Fit:1 Taint:3 Spread:2"


def test_a_plugin_disabled_and_enabled_at_a_point_comes_last_there() -> None:
    expansion = expanded(score=plugin_set("Fit:4", "Fit"))
    assert names(expansion, Point.SCORE) == "Taint:3 Spread:2 Fit:4"


def test_a_star_at_a_point_leaves_exactly_its_own_list() -> None:
    expansion = expanded(score=plugin_set("Extra:2", "*"))
    assert names(expansion, Point.SCORE) == "Extra:2"
    assert names(expansion, Point.FILTER) == "Fit:1 Taint:3 Spread:2"


def test_a_star_in_multi_point_does_not_empty_the_points() -> None:
    merged = merge_plugin_sets(plugin_set("Sort Bind", "*"), DEFAULT)
    expansion = expanded(merged, filter=plugin_set("Taint"))
    assert expansion.faults == ()
    assert names(expansion, Point.FILTER) == "Taint:1"
    assert names(expansion, Point.SCORE) == ""


def test_no_weight_and_weight_0_count_as_1() -> None:
    assert names(expanded(score=plugin_set("Taint:0")), Point.SCORE) == "Taint:1 Fit:1 Spread:2"


def test_a_weight_where_nothing_is_scored_is_ignored() -> None:
    expansion = expanded(bind=plugin_set("Bind:7"))
    assert expansion.faults == ()
    assert expansion.points[Point.BIND] == (EnabledPlugin("Bind", 1),)


def test_unknown_plugins_are_reported_where_they_are_named() -> None:
    assert texts(expanded(plugin_set("Sort Bind Nope"), score=plugin_set("Never"))) == [
        'ScorePlugin "Never" does not exist',
        'PreFilterPlugin "Nope" does not exist',
    ]


def test_a_plugin_that_lacks_the_point_is_refused_there() -> None:
    assert texts(expanded(score=plugin_set("Bind"))) == ['plugin "Bind" does not extend ScorePlugin plugin']


def test_a_plugin_named_twice_at_a_point_is_refused() -> None:
    assert texts(expanded(filter=plugin_set("Extra Extra"))) == ['plugin "Extra" already registered as "FilterPlugin"']


def test_a_profile_without_queue_sort_and_bind_is_refused() -> None:
    assert texts(expanded(PluginSet())) == [
        'only one queue sort plugin required for profile with scheduler name "s", but got 0',
        'at least one bind plugin is needed for profile with scheduler name "s"',
    ]


def test_weights_that_overflow_in_sum_are_refused() -> None:
    largest = 2**31 - 1
    many = [f"P{number}" for number in range(43)]
    points = POINTS | {name: {Point.SCORE} for name in many}
    plugins = Plugins(multi_point=plugin_set("Sort Bind " + " ".join(f"{name}:{largest}" for name in many)))
    expansion = expand(plugins, lambda name, point: point in points[name], points.keys(), "s")
    assert expansion.faults == ()
    heavy = Plugins(
        multi_point=plugin_set("Sort Bind"),
        score=PluginSet((PluginEntry("Fit", 2**62), PluginEntry("Taint", 1))),
    )
    overflowing = expand(heavy, lambda name, point: point in POINTS[name], POINTS.keys(), "s")
    assert texts(overflowing) == ["score plugins: total score of Score plugins could overflow"]


def test_a_weight_below_zero_is_refused() -> None:
    followed = expanded(plugin_set("Sort Bind"), score=PluginSet((PluginEntry("Fit", -1), PluginEntry("Taint", 5))))
    assert texts(followed) == ['score plugins: plugin "Fit" has the weight -1, which must be non-negative']
