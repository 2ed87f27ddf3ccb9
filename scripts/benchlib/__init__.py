"""The rooms of scripts/bench and its neighbours, in the order in which a run goes through them.

machine    which CPU is whose, how many descriptors, and what machine this is
places     where things are
tools      what has to be installed, where it is, and how to get it
documents  the files that are asked for
process    how a server is started, watched, clocked and ended
servers    the floor and tared
peers      the others, each as its makers would set it up for this
gate       each server's answer, checked once before it is measured
loads      the clients: what seven load tools are told, and a crowd of idle connections
claims     what load tools say happened
reports    what tared says of itself, held to the kernel's clocks
trials     one client against one server, and what each spent
rows       what is asked of whom, and the bar
rounds     A B A B, and the CPU time of it
figures    what is not CPU time: instructions, memory, start, size
verdicts   ratios within a round, and whether the bar is kept
report     Markdown and JSON
chart      the picture
scenarios  the four comparisons, built of the same parts
asking     clients of our own, who ask at a steady rate and compare each body
latency    what a number of requests took, in a few figures
haproxy    what HAProxy says of its servers
phases     what scripts/cluster concludes
asker      a client of our own for what load tools cannot be pointed at: unix sockets
pairs      what scripts/extras compares: one request without an option and with it
slowness   what scripts/slow tells slow clients, and concludes
"""
