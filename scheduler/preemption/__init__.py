"""Preemption's candidates: ``dry_run.py`` is the reference, ``wavefront.py`` the fast form, ``ranking.py`` chooses."""
