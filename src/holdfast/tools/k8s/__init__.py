"""`k8s.pods`, `k8s.deployments` and `k8s.logs`: read-only views of a Kubernetes cluster."""
