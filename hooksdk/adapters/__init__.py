"""hooksdk inside agent frameworks, with the same plugins and the same configuration: one module for each framework.

`hooksdk.adapters.langchain` needs `pip install 'hooksdk[langchain]'`, and so on: an extra has its module's name, with
hyphens.

Status: trial.
"""
