"""Campaigns that try to make the accelerator do anything but what the contract says."""
