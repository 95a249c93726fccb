"""End-to-end promises of Tandem, kept on a real Kubernetes control plane, and the bench beside its rivals."""
