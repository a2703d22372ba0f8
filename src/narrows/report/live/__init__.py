"""A run while it trains, shown from its folder: by the run itself with --live, or by `narrows watch`.

follow     a follower of a folder, which takes snapshots of the run
screen     a snapshot in a terminal
page       a snapshot as report.html, which reloads itself
watch      `narrows watch`
listeners  what training shows in its own process: messages, plain lines or a bar, and with --live the two views above
"""
