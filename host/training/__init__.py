"""Training on a device: settings, data, networks, runs and their folders."""
