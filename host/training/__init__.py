"""Training on a device: a run's settings, the loop that runs it, and the files that it reads and writes.

- ``settings``: the settings of a run and its learning-rate schedule; ``plateau``: the schedule that follows the loss.
- ``data``, ``dataset``, ``cifar_batches``: data sets by name, their checked arrays, CIFAR's pickles.
- ``models``: networks by name or from a file; ``network``: a network compiled and installed on a device;
  ``gradient_state``: the state of what predicts its gradients.
- ``session``: data, network and device of a run, opened together.
- ``trainer``: the training loop; ``progress``: its counts; ``loss``, ``inference``, ``divergence``: its parts.
- ``run_folder``, ``owned_folder``: a run's files, and whose folder it is; ``events``: TensorBoard's files;
  ``timeline``: traces of the units' work.
- ``diff``: the first difference between two devices; ``sources``: digest of the code that decides a result.
"""
