"""
The process kubelet: a node agent that runs pods as processes of this machine.

Rule: towards the API server it behaves as a real kubelet does, status for status. It knows nothing
of Ebbtide or of clouds; whoever owns a node inflicts faults on it by calling its methods. What it
cannot do it refuses: a pod that asks for it fails.
"""

from world.kubelet.addresses import Addresses, LoopbackAddresses
from world.kubelet.hosts import HostsFile
from world.kubelet.images import Images
from world.kubelet.node import Kubelet
from world.kubelet.shape import NodeShape

__all__ = ["Addresses", "HostsFile", "Images", "Kubelet", "LoopbackAddresses", "NodeShape"]
