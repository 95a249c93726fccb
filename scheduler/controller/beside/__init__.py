"""What running beside others needs: refusals of kubelets, and the shadow mode."""
