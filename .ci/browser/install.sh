#!/usr/bin/env bash
# Brings what the browser check needs, on Debian and Ubuntu: Chromium, a font for Chinese, and
# playwright-core (without a browser of its own) in .forwardpass/browser.
set -euo pipefail
cd "$(dirname "$0")/../.."
playwright=1.65.1

need=()
command -v chromium >/dev/null || need+=(chromium)
fc-list :lang=zh 2>/dev/null | grep -q . || need+=(fonts-wqy-zenhei)
if [ ${#need[@]} -gt 0 ]; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${need[@]}" >/dev/null
fi
modules=.forwardpass/browser
if ! grep -q "\"version\": \"$playwright\"" "$modules/node_modules/playwright-core/package.json" 2>/dev/null; then
  mkdir -p "$modules"
  npm install --silent --no-save --no-package-lock --ignore-scripts --prefix "$modules" "playwright-core@$playwright"
fi
