"""What runs for ever, and how it ends: asyncio only, no HTTP and no Kubernetes."""
