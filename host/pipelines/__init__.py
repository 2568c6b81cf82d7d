"""Pipelines of several accelerators: schedules as data, timed, checked and drawn, and networks that train by them.

``cutting.py``, ``sections.py`` and ``device_program.py`` make the devices' programs; ``worker.py`` runs one.
``staged_network.py`` has all devices in one process, ``distributed.py`` (with ``relay.py``) one in each.
"""
