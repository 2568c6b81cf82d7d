"""From a network to the accelerator's program, in eight stages:

1. capture (``capture.py``, with ``module_checks.py``): any ``torch.nn.Module`` becomes operators, by torch.export. A
   ``torch.nn.Sequential`` of the machine's layers alone needs none (``lowering.py``);
2. partition (``partition.py``, ``operators.py``): operators that the machine has become layers, neighbouring others
   become islands (``islands.py``, ``island_function.py``), which the host computes (``reasons.py`` says why);
3. graph (``graph.py``, ``values.py``; ``front_end.py`` runs stages 1 to 3): layers, with ReLUs as part of them, and
   islands in topological order;
4. batch (``batch.py``, ``layer_steps.py``, ``backward.py``, ``gradient_source.py``): the graph and the source of its
   gradients become steps, which are commands with tensors by name (``ir.py``, ``tensors.py``). Convolutions in groups
   and averages without their padding take several (``channel_groups.py``, ``borders.py``). A batch may have several
   micro-batches (``micro_batches.py``). Sources are true gradients, the predictor (``predictor.py``,
   ``predictor_steps.py``, ``window_sums.py``, ``filter_split.py``, ``streaming.py``) and what replaces it
   (``substitutes.py``);
5. memory plan (``memory_plan.py``, with ``lifetimes.py``): tensors and programs get addresses;
6. mapping (``mapping.py``, with ``occupancy.py``, ``cost_model.py`` and ``dataflow.py``): each step gets the fastest
   tiles that fit, or those of them that move fewer bytes;
7. dependencies (``dependencies.py``): each command gets the waits for earlier ones;
8. program (``compiler.py``, which runs stages 4 to 7): commands as they lie in memory.

``quantise.py`` converts numbers for the compiler and for the host. ``costs.py`` and ``useful_macs.py`` count a
program's work.
"""
