"""Black-box tests: Kubernetes and HTTP against the real programs; nothing of the product is imported.

`cluster/` chooses or starts a control plane and Muster's processes, `kube.py` talks to the API server, `objects.py`
builds what tests create, `waiting.py` waits with a deadline, `conftest.py` holds the fixtures:

    cluster         the cluster of the run (base.Cluster)            kube        API access as admin (kube.Kube)
    installed       the manifests, applied                           muster      a running, ready, leading replica
    start_replica   starts another replica (own host name, proxies)  api_proxy   an API server that misbehaves
    namespace       a namespace of the test alone                    make_nodes  Ready fake nodes of the test alone

    K8S=1.34                            the control plane of another minor, built when first asked for
    E2E_CLUSTER=existing|kind|local     instead of the order KUBECONFIG, kind, local
    python -m e2e.cluster up|down|status    a control plane for people
"""
