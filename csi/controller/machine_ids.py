"""Which machine a CSI node id means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from harvester.machines import MachineName

if TYPE_CHECKING:
    from csi.model import NodeId


class MachineResolver(Protocol):
    """Finds machines by node ids."""

    def machine_of(self, node: NodeId) -> MachineName | None:
        """Return the name of the VM, None where the id is known to mean none. Raises only CsiError."""
        ...


class MachinesByName:
    """Without a guest API a node's id is its VM's name. Upstream registers nodes in this way."""

    def machine_of(self, node: NodeId) -> MachineName | None:
        """Return the id as a name; whether there is such a VM, a look at the host says."""
        return MachineName(node)
