#!/bin/sh
# Builds the image `moonpool` whose user has your UID and GID, so that files in the workspace are yours.
set -eu
cd "$(dirname "$0")/../.."
exec docker build \
    --build-arg "UID=$(id -u)" \
    --build-arg "GID=$(id -g)" \
    --file plugin/docker/Dockerfile \
    --tag moonpool \
    "$@" \
    .
