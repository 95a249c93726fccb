"""The controllers that a cluster needs besides a scheduler, one reconcile function per kind.

`Controllers` follows the store's changes and calls the functions of the objects concerned.
"""

from scheduler.simulate.controllers.loop import Controllers

__all__ = ["Controllers"]
