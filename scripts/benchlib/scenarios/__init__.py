"""The four classic comparisons of 2011 to 2013, asked again.

setting    what a scenario is given, and what it leaves behind
raw        a raw baseline against nginx
proxy      what a proxy costs
siege      a static file, clustered, under siege
tools      which load tool is the bottleneck
suite      one after the other, into one report

Each scenario is a room with the same doors, in the order in which they are gone
through:

    TITLE, STORY          what is asked, and what was found then
    measure(setting)      lines, one for each line of the table
    table(lines)          Markdown
    conclude(lines)       one sentence, which follows from these numbers
    draw(lines, ...)      the picture
    broken(lines)         what tared was to keep and has not

All but measure are pure: scripts/tests holds the sentences to tables of numbers.
"""
