"""The controllers that a cluster needs around a scheduler, each as small as its job: one function a kind.

`Controllers` follows the store and calls the function of whatever may need work.
"""

from scheduler.simulate.controllers.loop import Controllers

__all__ = ["Controllers"]
