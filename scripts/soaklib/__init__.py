"""The rooms of scripts/soak, in the order in which a run goes through them.

content    what stands in a file, and what is wrong with a body
site       the files, and the writer who changes them
wire       one connection, as a client has it
exchanges  a request, and what its answer may be
traffic    what clients do, well and badly, and a process full of them
samples    what the kernel says of a server, once a second, and whether it is flat
account    a server's own report, held to what its clients counted
outcome    Markdown and JSON

Processes are started, described and ended as scripts/bench does it (benchlib).
"""
