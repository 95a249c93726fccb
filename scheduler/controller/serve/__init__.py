"""The HTTPS server: probes, metrics and pages, who may see them, and its certificate."""
