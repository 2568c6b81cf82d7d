"""Campaigns that try to make the accelerator break its contract."""
