"""What can be wrong in scripts/bench and the scripts beside it without anything being measured: how they
read what is said to them, and what they conclude from it.

    python3 -m unittest discover --start-directory scripts/tests --top-level-directory scripts
"""
