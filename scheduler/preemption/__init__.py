"""Who has to go, and where: ``dry_run.py`` is the judge, ``wavefront.py`` the quick form, ``ranking.py`` the choice."""
