"""The decisions: stimuli go in, commands come out. Start at ``scheduling_cycle.py``; the door is ``engine.py``."""
