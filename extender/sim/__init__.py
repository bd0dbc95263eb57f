"""The same engine and gate under a virtual clock: scenarios played on a virtual cluster."""
