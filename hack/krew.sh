#!/usr/bin/env bash
# Copyright The United Authors.
# SPDX-License-Identifier: Apache-2.0

# Prints the manifest for Krew of the archives in $DIST with version $VERSION.
set -euo pipefail
cat <<EOF
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: united
spec:
  version: v$VERSION
  homepage: https://github.com/unitedworkloads/united
  shortDescription: See, drive and undo rollouts of UnitedDeployments
  description: |
    Shows a rollout over zones on one screen, releases zone by zone, approves
    steps, says why a rollout does not move, plans a change before it is made,
    and goes back to an earlier revision.
  caveats: |
    It needs United in the cluster: https://github.com/unitedworkloads/united
  platforms:
EOF
for file in "$DIST"/kubectl-united-"$VERSION"-*.tar.gz; do
	platform=${file#*"kubectl-united-$VERSION-"}
	platform=${platform%.tar.gz}
	os=${platform%-*}
	program=kubectl-united
	[[ $os != windows ]] || program+=.exe
	cat <<EOF
  - selector:
      matchLabels:
        os: $os
        arch: ${platform#*-}
    uri: https://github.com/unitedworkloads/united/releases/download/v$VERSION/$(basename "$file")
    sha256: $(sha256sum "$file" | cut -d' ' -f1)
    bin: $program
EOF
done
