"""Rules to begin with, in words that people think in, by what is in a project's folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

_PUBLISHING: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "JavaScript": (("package.json",), ("npm publish", "pnpm publish", "yarn publish", "yarn npm publish", "bun publish", "npm unpublish")),
    "Python": (
        ("pyproject.toml", "setup.py", "setup.cfg"),
        ("twine upload", "uv publish", "poetry publish", "hatch publish", "flit publish", "pdm publish"),
    ),
    "Rust": (("Cargo.toml",), ("cargo publish", "cargo yank")),
    "Ruby": (("Gemfile", "*.gemspec"), ("gem push", "gem yank")),
    "Java": (("pom.xml", "build.gradle", "build.gradle.kts"), ("mvn deploy", "gradle publish", "gradlew publish")),
    ".NET": (("*.csproj", "*.sln"), ("dotnet nuget push", "nuget push")),
    "containers": (("Dockerfile", "compose.yaml", "docker-compose.yml"), ("docker push", "podman push")),
    "infrastructure": (("*.tf",), ("terraform apply", "terraform destroy", "tofu apply", "tofu destroy")),
    "Kubernetes": (("Chart.yaml", "kustomization.yaml", "k8s"), ("kubectl apply", "kubectl delete", "helm push", "helm upgrade")),
}  # fmt: skip
"""By what a project is made of: the files that say so, and the commands that send it out."""

_SECRETS = (
    ".env", ".env.local", ".env.development", ".env.production", ".env.staging", ".netrc", ".pypirc", ".git-credentials", "id_rsa", "id_dsa",
    "id_ecdsa", "id_ed25519", "*.pem", "*.p12", "*.pfx", "*.kdbx", "credentials.json", "secrets.toml",
)  # fmt: skip
_KEYS = ("~/.ssh", "~/.aws", "~/.gnupg", "~/.kube", "~/.docker", "~/.azure", "~/.config/gcloud", "~/.config/gh")
_SENDING = (
    "curl", "wget", "nc", "ncat", "socat", "telnet", "ftp", "sftp", "ssh", "scp", "rsync",
)  # fmt: skip


def _found_in(folder: Path) -> list[str]:
    """What the project in a folder is made of, by the files in it and in the folders of it."""
    return [
        kind
        for kind, (files, _) in _PUBLISHING.items()
        if any(any(folder.glob(f"{below}{name}")) for name in files for below in ("", "*/"))
    ]


def starter_policy(folder: Path) -> str:
    """Rules to begin with for the agents that work in a folder: TOML for its `hooksdk.toml`, with a comment for each rule. What
    publishes is named by what is in the folder, such as `npm publish` where there is a package.json.

    ```python
    from pathlib import Path

    from hooksdk.guard import starter_policy

    assert "[plugins.tool_policy.config]" in starter_policy(Path())
    ```
    """
    found = _found_in(folder)
    publishing = [command for kind in found or _PUBLISHING for command in _PUBLISHING[kind][1]]
    here = f"\n# Here: {', '.join(found)}." if found else ""
    return f"""\
# What a coding agent may do here by itself. A deny beats an ask, and what no rule speaks of is left to the agent
# and its own questions. `hooksdk guard try` says what these rules would have said to what it did lately.
[plugins.tool_policy]
enabled = true

[plugins.tool_policy.config]
default = "allow"

# Passwords and keys: nobody reads them, whichever tool or program it is. `.env.example` may be read.
[[plugins.tool_policy.config.rules]]
action = "deny"
does = "read"
path_name = {_listed(_SECRETS)}
reason = "Files with secrets are not read here. Ask the person for what you need to know."

[[plugins.tool_policy.config.rules]]
action = "deny"
does = ["read", "write"]
path_inside = {_listed(_KEYS)}
reason = "Keys and logins of this user are neither read nor changed."

# The rules of agents are changed by people: these here, and the settings that have the agents ask for them.
[[plugins.tool_policy.config.rules]]
action = "ask"
does = "write"
path_name = ["hooksdk.toml", ".claude", ".codex", ".gemini", ".qwen"]
title = "Change the rules or settings of an agent?"
severity = "critical"

[[plugins.tool_policy.config.rules]]
action = "ask"
does = "run"
command = ["hooksdk guard", "hooksdk approvals", "hooksdk gateway", "hooksdk trust"]
title = "Change what agents may do, or answer for a person?"
severity = "critical"

# Whatever is written, moved or deleted outside of this folder.
[[plugins.tool_policy.config.rules]]
action = "ask"
does = "write"
path_outside = [".", "/tmp"]
title = "Write outside of the project?"

# Deleting: `rm -rf` has many spellings, so every rm is asked about.
[[plugins.tool_policy.config.rules]]
action = "ask"
does = "run"
command = ["rm", "shred", "git clean", "git reset"]
title = "Delete, or throw away changes?"

# Pushing: a forced push has many spellings (`-f`, `+main`, `--mirror`), so every push is asked about.
[[plugins.tool_policy.config.rules]]
action = "ask"
does = "run"
command = ["git push", "git send-pack", "git filter-branch", "gh repo"]
title = "Push to others?"
severity = "critical"

# Publishing: what is out cannot be taken back.{here}
[[plugins.tool_policy.config.rules]]
action = "ask"
does = "run"
command = {_listed([*publishing, "gh release", "gh workflow run"])}
title = "Publish?"
severity = "critical"

# Sending and fetching by commands. Package managers, git and the agent's own web tools are not asked about.
[[plugins.tool_policy.config.rules]]
action = "ask"
does = "run"
command = {_listed(_SENDING)}
title = "Talk to another machine?"

# More rights than the agent was started with.
[[plugins.tool_policy.config.rules]]
action = "ask"
does = "run"
command = ["sudo", "doas", "su", "pkexec"]
title = "Run as another user?"
severity = "critical"
"""


def _listed(words: Sequence[str]) -> str:
    lines, line = list[str](), ""
    for word in map(json.dumps, words):
        if len(line) + len(word) > 110:
            lines.append(line)
            line = ""
        line += f"{word}, "
    return "[" + "\n  ".join(one.rstrip() for one in [*lines, line])[:-1] + "]"
