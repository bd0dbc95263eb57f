"""A kind cluster with real kubelets: its node image, its Docker engine, Muster's container image."""
