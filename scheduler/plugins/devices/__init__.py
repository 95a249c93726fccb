"""The plugin DynamicResources: allocation of devices to claims."""
