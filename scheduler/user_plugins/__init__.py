"""User plugins: loading, checks of their answers, and running of their coroutines."""
