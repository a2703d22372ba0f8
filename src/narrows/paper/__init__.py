"""The paper's four experiments, as runs that anyone can repeat, beside the numbers that the paper prints.

training          experiment 1: a typical run (dSprites, tau = 20)
front             experiment 2: dimensions against tau (MNIST), from separate runs or from one
reconstructions   experiment 3: what is lost first (dSprites, tau = 20 and 35)
table             experiment 4: how many dimensions are as good as a plain VAE (five sets)
experiments       the four by name

plan              options, jobs and rows: what an experiment consists of
job               one job: train what is not trained yet, and return its rows
scheduler         all jobs, one after another or in parallel
folder            an experiment's folder: which jobs are done, and the table of all rows

published         the paper's numbers
figures           the figures, from our rows
page              our numbers beside the paper's, as Markdown and HTML
"""
