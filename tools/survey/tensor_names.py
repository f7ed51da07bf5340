# SPDX-License-Identifier: Apache-2.0
"""Names of tensors in short form: "layers.{0-2}.up_proj.weight" for three of the same shape."""

import re

NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")  # Between dots: folded numbers are in braces.


def fold_last(shapes):
    """Folds runs of the last number of each name into one name."""
    folded, runs = {}, {}
    for name, shape in shapes.items():
        numbers = list(NUMBER.finditer(name))
        if numbers:
            last = numbers[-1]
            around = (name[:last.start()], name[last.end():], tuple(shape))
            runs.setdefault(around, []).append(int(last.group()))
        else:
            folded[name] = shape
    for (before, after, shape), numbers in runs.items():
        numbers.sort()
        first = numbers[0]
        for number, following in zip(numbers, [*numbers[1:], None]):
            if following == number + 1:
                continue
            run = str(number) if first == number else f"{{{first}-{number}}}"
            folded[before + run + after] = list(shape)
            first = following
    return folded


def fold(shapes):
    """`shapes` by name, with runs of experts and of layers as one name each."""
    return dict(sorted(fold_last(fold_last(shapes)).items()))
