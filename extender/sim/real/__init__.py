"""Scenarios on a real cluster: Muster as it is installed there, nodes by KWOK, kubelets and owners played here."""
