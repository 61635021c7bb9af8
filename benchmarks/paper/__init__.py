"""The paper's tables and figures as a program: a grid of runs, a store of results, and pages."""
