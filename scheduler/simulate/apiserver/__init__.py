"""An in-memory API server over HTTP: the parts of kube-apiserver 1.36 that schedulers, operators and kubectl use."""

from scheduler.simulate.apiserver.deletion import DeleteOptions
from scheduler.simulate.apiserver.failures import Failure
from scheduler.simulate.apiserver.faults import Fault, Faults
from scheduler.simulate.apiserver.registry import Registry
from scheduler.simulate.apiserver.server import ApiServer, Served
from scheduler.simulate.apiserver.store import Change, Follower, Store, Stored

__all__ = [
    "ApiServer",
    "Change",
    "DeleteOptions",
    "Failure",
    "Fault",
    "Faults",
    "Follower",
    "Registry",
    "Served",
    "Store",
    "Stored",
]
