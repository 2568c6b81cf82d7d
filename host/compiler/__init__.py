"""From a network to the accelerator's program, in six stages:

1. lowering (``lowering.py``, with ``module_checks.py``): a ``torch.nn.Sequential`` becomes a list of layers;
2. batch (``batch.py``, ``gradient_source.py``): layers and the source of their gradients become steps, which are
   commands with tensors by name (``ir.py``, ``tensors.py``). Sources are true gradients, the predictor
   (``predictor.py``, ``predictor_steps.py``, ``filter_split.py``) and what replaces it (``substitutes.py``);
3. memory plan (``memory_plan.py``): tensors and programs get addresses;
4. mapping (``mapping.py``, with ``occupancy.py`` and ``cost_model.py``): each step gets the fastest tiles that fit;
5. dependencies (``dependencies.py``): each command gets the waits for earlier ones;
6. program (``compiler.py``, which runs stages 2 to 5): commands as they lie in memory.

``quantise.py`` converts numbers for the compiler and for the host.
"""
