"""The hardware in Amaranth, a folder for each box of the block diagram; ``top.py`` connects them::

                     host
                      | registers: AXI4-Lite, on boards through link/
    +-----------------v------------------------------------------------+
    | control/   command fetch, phases, exponents, errors, counters    |
    +---------+-----------------------------------------------+--------+
              | compute commands                              | UPDATE, ADAM
    +-core.py-v--------------------------------------+  +-----v--------+
    | sequencer/   tile loops, as microcode          |  | update/      |
    |         | descriptors                          |  |   reader     |
    | dma/fill --> pads A, B --> compute/ --> drain/ |  |     |        |
    |              (memory/)     array or   epilogue,|  |   SGD lanes, |
    |                            pool       sums     |  |   Adam lane  |
    |                                          |     |  |     |        |
    | dma/store <----- pad C <-----------------+     |  |   writer     |
    +---------^--------------------------------------+  +-----^--------+
              |                                               |
    +---------v-----------------------------------------------v--------+
    | memory/   arbiters, predictor memory, AXI4 master                |
    +---------^--------------------------------------------------------+
              |
             DRAM

The MAX design has a second core for the predictor. ``lib/`` holds building blocks and signatures that all use,
``bfloat16/`` a PE that only compares number formats; ``top_with_link.py`` adds the serial link.
"""
