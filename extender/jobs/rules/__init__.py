"""The rules of the job controller: pure, no clock, no I/O; `lifecycle.reconcile` is the one door."""
