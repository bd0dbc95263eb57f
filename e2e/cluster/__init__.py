"""The control planes that e2e tests run against: built, started, chosen, put behind a faulty proxy, torn down.

Takes Go modules or an existing cluster; gives a `base.Cluster`. Imports nothing of the product."""
