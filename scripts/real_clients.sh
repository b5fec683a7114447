#!/usr/bin/env bash
# Installs real MCP clients from npm into a folder: scripts/real_clients.sh FOLDER [NAME ...], by default all of them.
# REAL_CLIENTS=FOLDER then lets tests/hooksdk/test_gateway_clients.py run them; the whole is about 950 MB.
set -euo pipefail
folder=${1:?usage: scripts/real_clients.sh FOLDER [mcp-inspector|claude|codex|gemini|qwen ...]}
shift
packages=()
for name in "${@:-all}"; do
  case $name in
    mcp-inspector | all) packages+=(@modelcontextprotocol/inspector@0.15.0) ;;&
    claude | all) packages+=(@anthropic-ai/claude-code@2.1.197) ;;&
    codex | all) packages+=(@openai/codex@0.169.0) ;;&
    gemini | all) packages+=(@google/gemini-cli@0.61.0) ;;&
    qwen | all) packages+=(@qwen-code/qwen-code@0.15.10) ;;&
    mcp-inspector | claude | codex | gemini | qwen | all) ;;
    *) echo "no client is called '$name': mcp-inspector, claude, codex, gemini and qwen are known" >&2; exit 2 ;;
  esac
done
mkdir -p "$folder"
[ -f "$folder/package.json" ] || echo '{"private": true}' > "$folder/package.json"
npm install --prefix "$folder" --no-audit --no-fund --loglevel error "${packages[@]}"
