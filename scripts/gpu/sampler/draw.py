"""Random numbers of a case. They depend on the seed, the family and the case's number alone."""

import math
import random

# This many cases of one setting share compiled kernels: their networks have the same widths, cell and type.
SHARED = 6


class Draw(random.Random):
    """The source of a case's numbers, or of those that several cases share."""

    def __init__(self, seed, family, number, what="case"):
        # A text as the seed gives the same numbers in each version of Python and in each process.
        super().__init__(f"{seed} {family} {what} {number}")

    def size(self, most, least=1):
        """A size from `least` to `most`, rather at a limit than amid: the ends, powers of two and their neighbours,
        multiples of eight, and any size."""
        way = self.random()
        if way < 0.15:
            found = least + self.randrange(6)
        elif way < 0.25:
            found = most - self.randrange(2)
        elif way < 0.6:
            found = 2 ** self.randint(0, most.bit_length()) + self.choice((-1, 0, 0, 1))
        elif way < 0.75:
            found = 8 * self.randint(1, max(most // 8, 1))
        else:
            found = round(math.exp(self.uniform(math.log(least), math.log(most))))
        return min(max(found, least), most)

    def is_so(self, share):
        """True in this share of the cases."""
        return self.random() < share

    def weighted(self, **weights):
        """One of the names, by their weights."""
        return self.choices(list(weights), list(weights.values()))[0]

    def way(self, captured=0.25):
        """How a case's calls are made: on the current stream, on another one, or replayed from a CUDA graph."""
        return self.weighted(eager=1 - captured - 0.15, stream=0.15, captured=captured)


def cut(sizes, weight, most):
    """Halves the largest of the sizes that are named, until weight(sizes) is at most `most`.

    sizes: a dictionary; `weight` gets it. Sizes of 1 stay.
    """
    while weight(sizes) > most:
        largest = max(sizes, key=sizes.get)
        if sizes[largest] == 1:
            return sizes
        # Not only even numbers: half of an odd size, rounded up, keeps its neighbourhood of a power of two.
        sizes[largest] = (sizes[largest] + 1) // 2
    return sizes
