"""Pipelines of several accelerators: schedules as data, their timing, a checker, counts and drawings."""
