"""Plugins from outside: how they are found, how their answers are checked, how their coroutines are run."""
