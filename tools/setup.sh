#!/usr/bin/env bash
# Brings a fresh Debian to where headrace runs: Java 17, a virtual environment, pinned requirements.
#   tools/setup.sh demo   what the product itself needs
#   tools/setup.sh test   also what the tests need: Maven (for the Kafka jars), Chromium and development tools
# Runs again in a moment when nothing is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:-demo}

say() { printf '\033[2m-- %s\033[0m\n' "$*"; }

apt_updated=
apt() {
  local as=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "setup: package $1 is missing; as root: apt-get install $1" >&2; exit 1; }
    as=(sudo)
  fi
  command -v apt-get >/dev/null || { echo "setup: package $1 is missing and this is no Debian; install it by hand" >&2; exit 1; }
  if [ -z "$apt_updated" ]; then
    say "refreshing the package list"; "${as[@]}" apt-get -qq update || true; apt_updated=yes
  fi
  say "installing $*"
  DEBIAN_FRONTEND=noninteractive "${as[@]}" apt-get -qq install -y --no-install-recommends "$@" >/dev/null || {
    echo "setup: cannot install $* with apt-get; install by hand, then run the command again" >&2; exit 1; }
}

java_ok() {
  local version
  version=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
  [ "${version:-0}" -ge 17 ]
}
{ command -v java >/dev/null && java_ok; } || apt openjdk-17-jre-headless

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "setup: Python 3.11 or later is needed (set PYTHON=...)" >&2; exit 1; }
if [ ! -x .venv/bin/python ]; then
  say "making the virtual environment"
  "$python" -m venv .venv 2>/dev/null || { rm -rf .venv; apt python3-venv; "$python" -m venv .venv; }
fi

# A lock names every package with the hashes of its files: pip adds none to it, and builds with what the first lock names.
install_lock() {
  .venv/bin/python -m pip install --quiet --require-hashes --no-deps --no-build-isolation --use-pep517 -r "$1"
}

case $purpose in
  demo) lock=requirements.lock ;;
  test) lock=requirements-dev.lock ;; # contains requirements.lock
  *) echo "setup: demo or test, not $purpose" >&2; exit 2 ;;
esac
stamp="$purpose $(cat requirements-build.lock requirements.lock requirements-dev.lock pyproject.toml | sha256sum | cut -d' ' -f1)"
if ! grep -qsxF -e "$stamp" -e "${stamp/#demo/test}" .venv/.stamp; then
  say "installing pinned Python packages (Spark is 450 MB: the first time takes a minute or two)"
  export PIP_DISABLE_PIP_VERSION_CHECK=1
  install_lock requirements-build.lock
  install_lock "$lock"
  .venv/bin/python -m pip install --quiet --no-deps --no-build-isolation -e .
  echo "$stamp" > .venv/.stamp
fi

if [ "$purpose" = test ]; then
  command -v mvn >/dev/null || apt maven
  command -v chromium >/dev/null || apt chromium
  .venv/bin/headrace kafka jars --quiet
fi
