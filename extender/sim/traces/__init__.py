"""Recorded workloads of GPU clusters, in one common form: one small file for each format."""
