"""The scheduling queue: which pod is tried next, and what a pod that could not be placed waits for.

Start with ``scheduling_queue.py``; ``handlers.py`` says what each change of the cluster means to it.
"""
