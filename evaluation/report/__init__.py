"""Documents and plots made of the files of results/."""
