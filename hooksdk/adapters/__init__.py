"""hooksdk inside agent frameworks: the same plugins and the same configuration, one module for each framework, which alone
imports it. `hooksdk.adapters.langchain` needs `pip install 'hooksdk[langchain]'`, and so on: the extras have the modules' names,
with hyphens.

Status: trial.
"""
