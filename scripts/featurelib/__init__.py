"""The rooms of scripts/features, in the order in which a run goes through them.

tree      the files that all of them serve
setups    how each server is told to do each thing: its options, and nothing beside it
running   one server, started so, and asked
answers   what is read out of an answer, a log or /proc (pure)
checks    the features, and what shows each
table     Markdown and JSON
"""
