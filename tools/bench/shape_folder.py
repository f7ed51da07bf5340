#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a model folder of a shape, without weights: `serve FOLDER/NAME --random-weights 1`.

    tools/bench/shape_folder.py tinyllama /tmp/shapes    # /tmp/shapes/tinyllama
"""
import argparse
from pathlib import Path

from compare import model_folder
from shapes import SHAPES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    print(model_folder(options.folder, options.shape, SHAPES[options.shape]))


if __name__ == "__main__":
    main()
