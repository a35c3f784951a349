"""Files for clusters: from what is to be served to Kubernetes manifests and a compose file. Pure; nothing is run."""
