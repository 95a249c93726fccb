"""The class cache: plugins' answers for classes of equivalent pods, kept up to date; start at ``cache.py``.

Its words, each with one meaning in this package:

| word | meaning |
|---|---|
| version | a number that grows with each change of one thing: of a kind's objects, of the row journal, of a slot |
| versions | all that a view's answers may depend on besides single rows (``View.versions``), compared at once |
| stamp | what one plugin's answers depend on besides rows, made of versions by the plugin; compared by equality |
| changed | of an input (a row, a stamp), or of an answer after it was worked out again: it is not what it was |
| stale | of a kept answer: it may no longer hold, and is worked out again |
| affected | of a plugin's slot: it reads some of what has changed |
| holds | of a slot: its answers for rows that have not changed are still valid |
"""
