"""Pure codecs: quantities, Kubernetes objects, the extender protocol, loopback records. No I/O, no decisions."""
