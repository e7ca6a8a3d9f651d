"""Pages of the inventory: devices, nodes, clusters, DeviceClasses."""
