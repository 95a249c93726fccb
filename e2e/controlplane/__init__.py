"""A real control plane on the loopback: etcd, kube-apiserver, controllers, KWOK as the kubelets."""
