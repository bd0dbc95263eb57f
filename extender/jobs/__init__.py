"""Jobs of Volcano's kind, run by our own controller, a process of its own."""
