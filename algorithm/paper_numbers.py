"""Numbers from the paper (ADA-GP, MICRO 2023), each with its place there; STALE_ are of a paper of stale weights."""

__all__ = [
    "ACCURACY", "ACCURACY_GAINS", "ASIC_AREA", "ASIC_POWER_UW", "CYCLES", "DATAFLOW_MOST_SPEEDUP", "DATAFLOW_SPEEDUP",
    "DRAM_ENERGY_SAVING", "EPOCHS", "EQUAL_AREA_PES", "EQUAL_AREA_SPEEDUP", "EQUAL_POWER_PES", "FPGA_POWER_W",
    "FPGA_RESOURCES", "LR", "N_PES",
    "PHASES", "PIPELINE_MOST_SPEEDUP", "PIPELINE_SPEEDUP", "PIPELINE_STEPS", "PREDICTOR_LR", "SPEEDUP",
    "STALE_DEEP_DROP", "STALE_EARLY_DROP", "WARMUP_EPOCHS", "YOLO_IOU", "YOLO_LR", "YOLO_WEIGHT_DECAY",
]  # fmt: skip

EPOCHS = 90
"""Epochs of training (section 6.1.2, figure 15)."""
WARMUP_EPOCHS = 10
"""Section 1; sections 3.1 and 3.2 call it L."""
PHASES = ((4, 4, 1), (4, 3, 1), (4, 2, 1), (1, 1, 1))
"""Epochs, GP batches, BP batches; the last for as long as it goes on (section 3.5, its end)."""
SPEEDUP = 1.47
"""Mean over networks and data sets (abstract)."""
PIPELINE_STEPS = {"gpipe": (21, 25), "1f1b": (21, 25), "chimera": (16, 20)}
"""Steps of a BP batch, and of a GP and a BP batch: four devices and micro-batches (sections 6.5.1 to 6.5.3)."""
PIPELINE_SPEEDUP = {"gpipe": 1.654, "1f1b": 1.654, "chimera": 1.575}
"""Means over networks (figure 20)."""
PIPELINE_MOST_SPEEDUP = {"gpipe": 1.68, "1f1b": 1.68, "chimera": 1.6}
"""Speed-ups of the best network (same sections)."""
DATAFLOW_SPEEDUP = {
    "ws": {"cifar10": 1.46, "cifar100": 1.46, "imagenet": 1.48},
    "rs": {"cifar10": 1.46, "cifar100": 1.46, "imagenet": 1.47},
    "is": {"cifar10": 1.46, "cifar100": 1.46, "imagenet": 1.48},
}
"""Means of ADA-GP-MAX over the thirteen CNNs by dataflow (section 6.3; figures 17 to 19)."""
DATAFLOW_MOST_SPEEDUP = {
    "ws": {"cifar10": 1.51, "cifar100": 1.51, "imagenet": 1.58},
    "rs": {"cifar10": 1.48, "cifar100": 1.48, "imagenet": 1.48},
}
"""Speed-ups of the best network (section 6.3); none is said for input-stationary."""
CYCLES: dict[str, dict[str, float]] = {
    "transformer": {"baseline": 1245.87, "max": 1104.31},
    "yolo-v3": {"baseline": 11490248, "efficient": 9846579, "max": 9134071},
}
"""In billions, as the tables have it (Tables 2 and 3). Table 2 doesn't name its design; it is taken for the fastest."""
DRAM_ENERGY_SAVING = 0.34
"""Mean, of memory accesses (section 6.6.2)."""
LR, PREDICTOR_LR = 1e-3, 1e-4
"""Learning rates at the beginning: SGD's with momentum of the networks, Adam's of the predictor (section 5.2)."""
YOLO_LR, YOLO_WEIGHT_DECAY, YOLO_IOU = 3e-5, 1e-4, 0.5
"""Settings of YOLO-v3 (section 6.4)."""
ACCURACY = {
    "resnet50": {"cifar10": (92.97, 93.76), "cifar100": (75.44, 75.73), "imagenet": (74.73, 73.97)},
    "resnet101": {"cifar10": (92.78, 93.62), "cifar100": (73.23, 75.38), "imagenet": (76.26, 75.71)},
    "resnet152": {"cifar10": (92.8, 93.12), "cifar100": (72.01, 73.7), "imagenet": (76.68, 76.23)},
    "inception-v4": {"cifar10": (91.22, 91.35), "cifar100": (70.52, 72.42), "imagenet": (76.23, 75.9)},
    "inception-v3": {"cifar10": (93.04, 93.88), "cifar100": (76.41, 77.68), "imagenet": (74.44, 73.87)},
    "vgg13": {"cifar10": (91.52, 92.55), "cifar100": (70.48, 70.41), "imagenet": (70.68, 70.68)},
    "vgg16": {"cifar10": (91.32, 92.34), "cifar100": (70.36, 70.47), "imagenet": (72.07, 71.98)},
    "vgg19": {"cifar10": (91.18, 92.51), "cifar100": (69.69, 69.85), "imagenet": (72.94, 72.83)},
    "densenet121": {"cifar10": (93.2, 93.63), "cifar100": (76.25, 76.12), "imagenet": (75.25, 74.51)},
    "densenet161": {"cifar10": (93.48, 94.19), "cifar100": (76.87, 77.38), "imagenet": (76.43, 76.71)},
    "densenet169": {"cifar10": (93.24, 94.15), "cifar100": (75.57, 76.4), "imagenet": (75.36, 75.3)},
    "densenet201": {"cifar10": (93.26, 94.13), "cifar100": (76.37, 76.96), "imagenet": (75.52, 75.56)},
    "mobilenet-v2": {"cifar10": (90.08, 91.34), "cifar100": (68.11, 68.47), "imagenet": (69.88, 69.23)},
}  # fmt: skip
"""Accuracy in percent by network and data set: with backpropagation, with ADA-GP (Table 1)."""
ACCURACY_GAINS = {"cifar10": 0.75, "cifar100": 0.88, "imagenet": -0.3}
"""Means in points, as the text below Table 1 has them (section 6.1.1); the table's first two are others."""
N_PES = 180
"""Processing elements of the baseline (section 5.1)."""
FPGA_RESOURCES = {
    "baseline": {"lut": 472004, "ff": 31402, "ramb36": 1327, "ramb18": 514, "dsp48": 166},
    "low": {"lut": 489286, "ff": 31856, "ramb36": 1327, "ramb18": 514, "dsp48": 166},
    "efficient": {"lut": 493171, "ff": 31916, "ramb36": 2407, "ramb18": 514, "dsp48": 166},
    "max": {"lut": 494080, "ff": 37452, "ramb36": 2407, "ramb18": 514, "dsp48": 246},
}
"""Area of ``N_PES`` on "the Virtex 7 FPGA board" (section 5.1; Table 4a). The paper doesn't name the part;
none of the family has as many block RAMs as the last two."""
FPGA_POWER_W = {
    "baseline": {
        "clocks": 0.046, "logic": 0.42, "signals": 0.842, "bram": 0.244, "dsp": 0.009, "static": 2.032, "total": 3.712,
    },
    "low": {
        "clocks": 0.047, "logic": 0.446, "signals": 0.857, "bram": 0.243, "dsp": 0.001, "static": 2.032, "total": 3.745,
    },
    "efficient": {
        "clocks": 0.052, "logic": 0.421, "signals": 0.852, "bram": 0.339, "dsp": 0.001, "static": 2.06, "total": 3.844,
    },
    "max": {
        "clocks": 0.055, "logic": 0.426, "signals": 0.857, "bram": 0.339, "dsp": 0.001, "static": 2.059, "total": 3.856,
    },
}  # fmt: skip
"""On chip, in watts (Table 4b). The totals are 0.1 W more than the sums: something isn't listed."""
ASIC_AREA = {
    "baseline": {
        "combinational": 2331250, "buffers": 272483, "interconnect": 436615, "cells": 2546076, "total": 2982691,
    },
    "low": {
        "combinational": 2375188, "buffers": 277261, "interconnect": 445371, "cells": 2590583, "total": 3035954,
    },
    "efficient": {
        "combinational": 2405881, "buffers": 275783, "interconnect": 440031, "cells": 2622858, "total": 3062890,
    },
    "max": {
        "combinational": 2512057, "buffers": 287076, "interconnect": 460157, "cells": 2770979, "total": 3231136,
    },
}  # fmt: skip
"""In standard cells (Table 5a), without a unit; the total is cells and interconnect. Neither the library nor what
becomes of the memories is said."""
ASIC_POWER_UW = {
    "baseline": {"internal": 2.26e4, "switching": 1.72e3, "leakage": 1.99e5, "total": 2.24e5},
    "low": {"internal": 2.25e4, "switching": 1.67e3, "leakage": 2.02e5, "total": 2.26e5},
    "efficient": {"internal": 2.27e4, "switching": 1.80e3, "leakage": 2.00e5, "total": 2.25e5},
    "max": {"internal": 2.80e4, "switching": 2.42e3, "leakage": 2.23e5, "total": 2.54e5},
}
"""In standard cells, taken for microwatts (Table 5b): watts, as the table's caption has it, can't be meant."""
EQUAL_AREA_PES, EQUAL_POWER_PES = 0.11, 0.10
"""More PEs for the baseline, for the area of MAX in standard cells and for its power on the FPGA (section 6.6.1)."""
EQUAL_AREA_SPEEDUP = {"cifar10": 0.0463, "cifar100": 0.0461, "imagenet": 0.0553}
"""The baseline's speed-up by the PEs for MAX's area, mean by data set (section 6.6.1, whose sentences allow
other readings)."""
STALE_EARLY_DROP = {"lenet5": 0.4, "alexnet": 4.0, "vgg": 0.83, "resnet": 1.45}
STALE_DEEP_DROP = {"vgg": 12.0, "resnet": 8.5}
"""Points of accuracy that training with stale weights loses, pipelined in early layers, and at most when pipelined
deeper ("Pipelined training with stale weights in deep convolutional neural networks", abstract)."""
