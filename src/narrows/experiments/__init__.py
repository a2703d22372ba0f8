"""10. The paper's four experiments, one file each: which runs they are; rows come out, nothing is drawn.

training          experiment 1: how a run goes (dSprites, tau = 20)
front             experiment 2: dimensions against tau (MNIST), from separate runs or from one
reconstructions   experiment 3: what is lost first (dSprites, tau = 20 and 35)
table             experiment 4: as good as a plain VAE, with how many dimensions (five sets)

`plan.py` says what a job and a row are, `board.py` keeps the folder, `work.py` does one job, `running.py` all of them.
"""
