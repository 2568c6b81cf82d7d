"""Training with stale weights by its definition: one golden machine, and all weights that each stage ever had.

Micro-batches pass the whole network one after the other, each as a batch of its own. Before each pass of a stage the
machine gets the stage's weights and momenta, with their exponents, as they were after so many updates.
"""

from adagp.golden.exponents import Exponents
from adagp.host.compiler.tensors import layer_tensor
from adagp.host.devices.golden import GoldenDevice
from adagp.host.training.loss import softmax_cross_entropy
from adagp.host.training.network import Network
from adagp.spec.commands import Opcode, Phase
from adagp.spec.registers import Status

__all__ = ["StaleMachine"]


class StaleMachine:
    """A network of which stage s begins with layer ``firsts[s - 1]``; ``size`` images pass at a time."""

    def __init__(self, module, image, size, config, firsts):
        self.network, self.device = Network(module, image, size, config), GoldenDevice(config, 4 << 20)
        names = [layer.name for layer in self.network.layers]
        places = [names.index(first) for first in firsts]
        self.stage_of = [sum(place <= number for place in places) for number in range(len(names))]
        self.stages, self.size = len(firsts) + 1, size
        self.network.load_state(self.device, module.state_dict())
        self.network.set_hyper(self.device, 0.05, 0.9, 0.002)

    def tensors(self, stage):
        """Those that updates change; running statistics are of forward passes."""
        placed = zip(self.network.layers, self.stage_of, strict=True)
        return [layer_tensor(layer, part) for layer, place in placed if place == stage and layer.weighted
                for part in layer.state if part != "statistics"]  # fmt: skip

    def kept(self, stage):
        table = self.device.machine.exponents
        return [(name, self.network.read(self.device, name), table_entry(table, self.network.tensors[name].number))
                for name in self.tensors(stage)]  # fmt: skip

    def put(self, version):
        for name, array, entry in version:
            self.network.write(self.device, name, array)
            if entry is not None:
                number, *exponents = entry
                self.device.set_exponents(number, *exponents)

    def batch(self, images, labels, delays, calibrate=False):
        """Train micro-batches of which each has an update, ``delays`` by stage; returns the weights' hash."""
        versions = [[self.kept(stage)] for stage in range(self.stages)]
        count = 1 if calibrate else len(images) // self.size
        for number in range(count):
            part = slice(number * self.size, (number + 1) * self.size)
            self.micro_batch(images[part], labels[part], number, delays, versions, calibrate)
            for stage in range(self.stages):
                versions[stage].append(self.kept(stage))
        return self.network.weights_hash(self.device)

    def micro_batch(self, images, labels, number, delays, versions, calibrate):
        machine, lines, forward = self.device.machine, list(self.network.program), True

        def entered(index, command):
            """Before the next command, the weights of its pass."""
            nonlocal forward
            forward &= command.opcode != Opcode.HOST
            following = next((line.command for line in lines[index + 1 :]
                              if line.command.phase_mask & Phase.WARMUP), None)  # fmt: skip
            if following is None or following.opcode in (Opcode.HOST, Opcode.COMMIT, Opcode.END):
                return
            now = self.stage_of[following.layer], forward
            if now != self.at:
                self.at, (stage, _) = now, now
                self.put(versions[stage][max(0, number - delays[stage]) if forward else number])

        self.at, machine.on_command = None, None if calibrate else entered
        self.network.write_input(self.device, images)
        self.network.start(self.device, 0, calibrate=calibrate)
        assert self.network.wait(self.device) & Status.HOST
        gradient = softmax_cross_entropy(self.network.read_logits(self.device), labels)[1]
        self.network.write_loss_gradient(self.device, gradient)
        self.device.resume()
        self.network.wait(self.device)


def table_entry(table: Exponents, number: int):
    """A tensor's number with its exponents, the next one if there is one; None without a number."""
    if number < 0:
        return None
    return number, int(table.cur[number]), int(table.next[number]) if table.has_next[number] else None
