"""Files published to a cluster, as events or turns."""
