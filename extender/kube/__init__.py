"""Talks to the Kubernetes API in raw JSON, for both processes. It decides nothing; the only importer of kubernetes_asyncio."""
