#!/usr/bin/env bash
# Copyright The United Authors.
# SPDX-License-Identifier: Apache-2.0

# Checks that the files of hack/npm.txt are those that were published. With "write", it copies them here: change versions and
# integrities in the list first. It needs npm and openssl.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

while read -r package version integrity file here; do
	case $package in '' | '#'*) continue ;; esac
	archive=$tmp/$package-$version.tgz
	if [[ ! -e $archive ]]; then
		if ! npm pack --silent --pack-destination "$tmp" "$package@$version" >/dev/null 2>&1; then
			echo "npm cannot get $package@$version, skipped: whether the files of hack/npm.txt are those that were published" >&2
			exit "$([[ ${1:-} == write ]] && echo 1 || echo 0)"
		fi
		found=sha512-$(openssl dgst -sha512 -binary "$archive" | openssl base64 -A)
		if [[ $found != "$integrity" ]]; then
			echo "$package@$version has the integrity $found, not $integrity" >&2
			exit 1
		fi
	fi
	tar -xzOf "$archive" "package/$file" >"$tmp/file"
	if [[ ${1:-} == write ]]; then
		cp "$tmp/file" "$here"
	elif ! cmp -s "$tmp/file" "$here"; then
		echo "$here is not $file of $package@$version: hack/npm.sh write" >&2
		exit 1
	fi
done <hack/npm.txt
