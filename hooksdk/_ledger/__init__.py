"""What is written of a tool call between its judgement and its result, so that no crash makes it run twice, or be told
untruly.

`docs/explanation/ledger.md` tells the states of a call and of its effect. `calls` has the call and its stages,
`effects` what is written before a tool runs, what is asked where an equal call is in doubt, and the refusal of calls
whose record could not be written, and `waiting` the decisions about calls that wait for a person.
"""
