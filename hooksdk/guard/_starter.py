"""Rules to begin with, in words that people think in, by what is in a project's folder."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from string import Template

# The rules, with a place for each list of names below.
_TEMPLATE = Path(__file__).with_name("starter.template")
# By what a project is made of: the files that say so, and the commands that send it out.
_PUBLISHING = {
    "JavaScript": ("package.json", "npm publish,pnpm publish,yarn publish,yarn npm publish,bun publish,npm unpublish"),
    "Python": (
        "pyproject.toml setup.py setup.cfg",
        "twine upload,uv publish,poetry publish,hatch publish,flit publish,pdm publish",
    ),
    "Rust": ("Cargo.toml", "cargo publish,cargo yank"),
    "Ruby": ("Gemfile *.gemspec", "gem push,gem yank"),
    "Java": ("pom.xml build.gradle build.gradle.kts", "mvn deploy,gradle publish,gradlew publish"),
    ".NET": ("*.csproj *.sln", "dotnet nuget push,nuget push"),
    "containers": ("Dockerfile compose.yaml docker-compose.yml", "docker push,podman push"),
    "infrastructure": ("*.tf", "terraform apply,terraform destroy,tofu apply,tofu destroy"),
    "Kubernetes": ("Chart.yaml kustomization.yaml k8s", "kubectl apply,kubectl delete,helm push,helm upgrade"),
}
_SECRETS = """
    .env .env.local .env.development .env.production .env.staging .netrc .pypirc .git-credentials id_rsa id_dsa id_ecdsa
    id_ed25519 *.pem *.p12 *.pfx *.kdbx credentials.json secrets.toml
"""
_KEYS = "~/.ssh ~/.aws ~/.gnupg ~/.kube ~/.docker ~/.azure ~/.config/gcloud ~/.config/gh"
_SENDING = "curl wget nc ncat socat telnet ftp sftp ssh scp rsync"


def _found_in(folder: Path) -> list[str]:
    """What the project in a folder is made of, by the files in it and in the folders of it."""
    return [
        kind
        for kind, (files, _) in _PUBLISHING.items()
        if any(any(folder.glob(f"{below}{name}")) for name in files.split() for below in ("", "*/"))
    ]


def starter_policy(folder: Path) -> str:
    """Rules to begin with for the agents that work in a folder: TOML for its `hooksdk.toml`, with a comment for each
    rule. What publishes is named by what is in the folder, such as `npm publish` where there is a package.json.

    ```python
    from pathlib import Path

    from hooksdk.guard import starter_policy

    assert "[plugins.tool_policy.config]" in starter_policy(Path())
    ```
    """
    found = _found_in(folder)
    publishing = [command for kind in found or _PUBLISHING for command in _PUBLISHING[kind][1].split(",")]
    return Template(_TEMPLATE.read_text("utf-8")).substitute(
        secrets=_listed(_SECRETS.split()),
        keys=_listed(_KEYS.split()),
        sending=_listed(_SENDING.split()),
        publishing=_listed([*publishing, "gh release", "gh workflow run"]),
        here=f"\n# Here: {', '.join(found)}." if found else "",
    )


def _listed(words: Iterable[str]) -> str:
    lines, line = list[str](), ""
    for word in map(json.dumps, words):
        if len(line) + len(word) > 110:
            lines.append(line)
            line = ""
        line += f"{word}, "
    return "[" + "\n  ".join(one.rstrip() for one in [*lines, line])[:-1] + "]"
