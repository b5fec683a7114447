"""The mechanism of hooks: events, decorators, mailboxes and dispatch. It knows no single hook."""
