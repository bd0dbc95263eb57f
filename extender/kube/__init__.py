"""The Kubernetes API in raw JSON, for both processes; only here is kubernetes_asyncio imported."""
