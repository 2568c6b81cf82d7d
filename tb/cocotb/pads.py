"""A scratchpad played by a bench, for engines that are tested without one."""

from harness import Bench

__all__ = ["Pad"]


class Pad:
    """Both halves of a scratchpad as lists of operands, behind ports of the design."""

    def __init__(self, bench: Bench, config, halves: list[list[int]]):
        self.bench, self.config, self.halves = bench, config, halves
        self.written = 0

    def rubbish(self) -> int:
        """An operand that means nothing."""
        return self.bench.rng.randrange(1 << (self.config.operand_width - 1))

    def spoil(self, half: int) -> None:
        """Forget what a half holds."""
        self.halves[half][:] = [self.rubbish() for _ in self.halves[half]]

    def _lanes(self, name):
        """Half and element of each lane of port ``name``."""
        banks = self.config.banks
        depth, rot = len(self.halves[0]) // banks, self.bench.get(f"{name}_rot")
        for lane, address in enumerate(self.bench.get(f"{name}_addr")):
            half, word = divmod(address, depth)
            yield self.halves[half], word * banks + (rot + lane) % banks

    def serve_reads(self, name: str, latency: int, zeros: bool = False) -> None:
        """Answer the PadRead ``name`` from now on, ``latency`` enabled cycles later; with ``zeros`` it has such."""
        pipeline = [[0] * self.config.banks for _ in range(latency - 1)]

        def see():
            if self.bench.get(f"{name}_en"):
                wanted = self.bench.get(f"{name}_valid")
                pipeline.append([half[e] if wanted else self.rubbish() for half, e in self._lanes(name)])
                none = self.bench.get(f"{name}_zeros") if zeros else 0
                operands = enumerate(pipeline.pop(0))
                self.bench.set(f"{name}_data", [0 if none >> lane & 1 else operand for lane, operand in operands])

        self.bench.watch(see)

    def serve_writes(self, name: str) -> None:
        """Do what the PadWrite ``name`` asks for from now on."""

        def see():
            mask = self.bench.get(f"{name}_mask")
            if not mask:
                return
            data = self.bench.get(f"{name}_data")
            for lane, (half, element) in enumerate(self._lanes(name)):
                if mask >> lane & 1:
                    half[element] = data[lane]
                    self.written += 1

        self.bench.watch(see)
