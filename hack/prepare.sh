#!/usr/bin/env bash
# Copyright The United Authors.
# SPDX-License-Identifier: Apache-2.0

# Brings programs into bin/, and says which of how many and about how long: hack/prepare.sh kube-apiserver etcd ...
#
# What go prints is shown only if a build fails. A program that $UNITED_BIN_DIR or $KUBEBUILDER_ASSETS has in the pinned
# version is copied.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=${BIN:-$PWD/bin}
make=${MAKE:-make}

# How long it takes on 2 cores, in seconds, if nothing is in the build cache, after those before it; without downloads.
about() {
	case $1 in
	kube-apiserver) echo 240 ;;
	kube-controller-manager | united-manager) echo 85 ;;
	kube-scheduler | kubectl | etcd) echo 25 ;;
	kwok) echo 70 ;;
	kubectl-united) echo 30 ;;
	helm) echo 140 ;;
	*) echo 15 ;;
	esac
}

in_words() {
	if (($1 < 90)); then echo "$1 s"; else echo "$((($1 + 30) / 60)) min"; fi
}

# What is built from this module is built each time, because only go knows whether it is up to date; that takes a second then.
own() { [[ $1 == united-manager || $1 == kubectl-united || $1 == demo || $1 == playground ]]; }

current() { if own "$1"; then [[ -e $bin/$1 ]]; else "$make" -q "$bin/$1" >/dev/null 2>&1; fi; }

pinned() {
	local module name
	case $1 in
	kube*) module=controlplane name=k8s.io/kubernetes ;;
	etcd) module=etcd name=go.etcd.io/etcd/server/v3 ;;
	kwok) module=kwok name=sigs.k8s.io/kwok ;;
	helm) module=helm name=helm.sh/helm/v4 ;;
	*) return 1 ;;
	esac
	awk -v name="$name" '$1 == name {print $2; exit} $1 == "require" && $2 == name {print $3; exit}' "hack/tools/$module/go.mod"
}

reported() {
	case $(basename "$1") in
	kubectl) "$1" version --client ;;
	helm) "$1" version --short ;;
	*) "$1" --version ;;
	esac 2>/dev/null </dev/null
}

# Finds a program in the pinned version, and prints its path.
prebuilt() {
	local want dir word
	want=$(pinned "$1") || return 1
	for dir in "${UNITED_BIN_DIR:-}" "${KUBEBUILDER_ASSETS:-}"; do
		[[ -n $dir && ! $dir -ef $bin && -x $dir/$1 ]] || continue
		for word in $(reported "$dir/$1"); do
			if [[ ${word#v} == "${want#v}" ]]; then
				echo "$dir/$1"
				return
			fi
		done
	done
	return 1
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT

run() { # a target of the Makefile
	if ! "$make" --no-print-directory "$1" >"$log" 2>&1; then
		echo "make $1 failed:" >&2
		cat "$log" >&2
		exit 1
	fi
}

missing=()
total=0
for program in "$@"; do
	if current "$program"; then
		continue
	elif from=$(prebuilt "$program"); then
		run "stamp-$program"
		cp "$from" "$bin/$program"
		echo "$program: $from"
	else
		missing+=("$program")
		total=$((total + $(about "$program")))
	fi
done

if ((${#missing[@]} > 0)); then
	echo "Building into bin/ from pinned Go modules, once: ${missing[*]}. About $(in_words $total) on 2 cores, and the downloads."
fi
number=0
for program in ${missing[@]+"${missing[@]}"}; do
	number=$((number + 1))
	began=$SECONDS
	printf '[%d/%d] %s, about %s ... ' "$number" "${#missing[@]}" "$program" "$(in_words "$(about "$program")")"
	if own "$program"; then run "build-$program"; else run "$bin/$program"; fi
	echo "$(in_words $((SECONDS - began)))"
done
for program in "$@"; do
	if own "$program"; then run "build-$program"; fi
done
