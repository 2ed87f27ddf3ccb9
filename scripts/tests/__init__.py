"""What can be wrong in scripts/bench and its neighbours without anything being measured: how it reads
what load tools print, and what it concludes from numbers.

    python3 -m unittest discover --start-directory scripts/tests --top-level-directory scripts
"""
