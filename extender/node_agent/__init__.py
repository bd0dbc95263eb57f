"""Publishes how the GPUs of a node are joined (`python -m extender.node_agent`)."""
