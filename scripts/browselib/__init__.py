"""The rooms of scripts/browse, in the order in which a run goes through them.

files     what a browser wants and no text file is: a font and a long recording (pure)
tree      the files that are served
colours   whether a text can be read before its background (pure)
devtools  Chromium, driven over a pipe
checks    what somebody does in the browser, and what is to come of it
"""
