"""Operation beside other schedulers: refusals by kubelets, and the shadow mode."""
