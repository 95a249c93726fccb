"""The HTTPS server: probes, metrics and pages, their authorization, and the serving certificate."""
