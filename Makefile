# Only Go, make and git are needed. Every other program is built from the Go modules pinned in hack/tools
# (one go.mod each, so that none of them enters the main one) and kept in bin/.

SHELL := /bin/bash
GO ?= go
# Static binaries, and the same build on a machine without a C compiler. `make test CGO_ENABLED=1 TESTFLAGS=-race` works.
CGO_ENABLED ?= 0
export CGO_ENABLED

BIN := $(CURDIR)/bin
export UNITED_BIN_DIR ?= $(BIN)
TESTFLAGS ?=
FUZZTIME ?= 30s
SIMULATIONS ?= 20
BENCHFLAGS ?=

.DEFAULT_GOAL := help
.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##### Tools ############################################################################################################

# The one place that names a Kubernetes version is the pin in its tool module. Without it in the binaries kubectl fails,
# and helm refuses charts with a kubeVersion.
k8s-version = $(shell awk '$$1 == "k8s.io/kubernetes" {print $$2}' hack/tools/$(1)/go.mod)
K8S_PKG := k8s.io/component-base/version

define k8s-flags # $(1): directory in hack/tools, $(2): its version, $(3): the words of the version
FLAGS_$(1) := -X $(K8S_PKG).gitVersion=$(2) -X $(K8S_PKG).gitTreeState=clean \
	-X $(K8S_PKG).gitMajor=$(word 1,$(3)) -X $(K8S_PKG).gitMinor=$(word 2,$(3))
endef
K8S_MODULES := controlplane controlplane-oldest
$(foreach m,$(K8S_MODULES),$(eval $(call k8s-flags,$(m),$(call k8s-version,$(m)),$(subst ., ,$(patsubst v%,%,$(call k8s-version,$(m)))))))

# helm reports this version; charts see it in .Capabilities.
HELM_VERSION := $(shell awk '$$1 == "helm.sh/helm/v4" {print $$2}' hack/tools/helm/go.mod)
FLAGS_helm := -X helm.sh/helm/v4/internal/version.version=$(HELM_VERSION)

# Without the service discoveries of the clouds: promtool does not need them here, and the client of AWS alone would take
# minutes to build.
TAGS_prometheus := remove_all_sd

# A tool is rebuilt when the content of its module, the Go version or its flags change: the three are in the name of a
# stamp file that the binary depends on. (File times alone say nothing after a checkout.)
GO_VERSION := $(shell $(GO) env GOVERSION)
key = $(firstword $(shell { cat hack/tools/$(1)/go.mod hack/tools/$(1)/go.sum; echo '$(GO_VERSION) $(FLAGS_$(1))$(TAGS_$(1))'; } | cksum))

# The old stamps are those with a number after the name: another module may have a longer name that begins the same.
define stamp-rule # $(1): directory in hack/tools
STAMP_$(1) := $(BIN)/.stamps/$(1)-$(call key,$(1))
$$(STAMP_$(1)):
	@mkdir -p $$(@D) && rm -f $(BIN)/.stamps/$(1)-[0-9]* && touch $$@
endef

define tool-rule # $(1): directory in hack/tools, $(2): binary, $(3): package
$(BIN)/$(2): $$(STAMP_$(1))
	@mkdir -p $$(@D)
	cd hack/tools/$(1) && CGO_ENABLED=0 $(GO) build -trimpath $(addprefix -tags ,$(TAGS_$(1))) -ldflags "-s -w $(FLAGS_$(1))" -o $$@ $(3)
	@touch $$@
.PHONY: stamp-$(2)
stamp-$(2): $$(STAMP_$(1))
endef

CHARTS := $(patsubst %/Chart.yaml,%,$(wildcard charts/*/Chart.yaml))
CHART_TOOLS := $(BIN)/helm $(BIN)/helm-unittest
K8S_BINARIES := kube-apiserver kube-controller-manager kube-scheduler kubectl
CONTROL_PLANE := $(addprefix $(BIN)/,$(K8S_BINARIES) etcd kwok)
# The managers of the kinds of children that are not Kubernetes' own, and the controller of Argo Rollouts, with their CRDs.
KIND_MANAGERS := $(addprefix $(BIN)/,kruise-manager kruise/webhooks.yaml lws-manager lws/webhooks.yaml argo-rollouts argo-rollouts-crd/done)
$(foreach m,$(K8S_MODULES) etcd kwok kruise lws helm helm-unittest controller-gen crd-ref-docs golangci-lint govulncheck krew prometheus prometheus-operator argo-rollouts cyclonedx-gomod cosign,$(eval $(call stamp-rule,$(m))))
$(foreach b,$(K8S_BINARIES),$(eval $(call tool-rule,controlplane,$(b),k8s.io/kubernetes/cmd/$(b))))
$(eval $(call tool-rule,etcd,etcd,go.etcd.io/etcd/server/v3))
$(eval $(call tool-rule,kwok,kwok,sigs.k8s.io/kwok/cmd/kwok))
$(eval $(call tool-rule,kruise,kruise-manager,github.com/openkruise/kruise))
$(eval $(call tool-rule,lws,lws-manager,sigs.k8s.io/lws/cmd))
$(eval $(call tool-rule,argo-rollouts,argo-rollouts,github.com/argoproj/argo-rollouts/cmd/rollouts-controller))
$(eval $(call tool-rule,helm,helm,helm.sh/helm/v4/cmd/helm))
$(eval $(call tool-rule,helm-unittest,helm-unittest,github.com/helm-unittest/helm-unittest/cmd/helm-unittest))
$(eval $(call tool-rule,controller-gen,controller-gen,sigs.k8s.io/controller-tools/cmd/controller-gen))
$(eval $(call tool-rule,crd-ref-docs,crd-ref-docs,github.com/elastic/crd-ref-docs))
$(eval $(call tool-rule,golangci-lint,golangci-lint,sigs.k8s.io/kube-api-linter/cmd/golangci-lint-kube-api-linter))
$(eval $(call tool-rule,govulncheck,govulncheck,golang.org/x/vuln/cmd/govulncheck))
$(eval $(call tool-rule,cyclonedx-gomod,cyclonedx-gomod,github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod))
$(eval $(call tool-rule,cosign,cosign,github.com/sigstore/cosign/v3/cmd/cosign))
$(eval $(call tool-rule,krew,validate-krew-manifest,sigs.k8s.io/krew/cmd/validate-krew-manifest))
$(eval $(call tool-rule,prometheus,promtool,github.com/prometheus/prometheus/cmd/promtool))
$(eval $(call tool-rule,prometheus,prometheus,github.com/prometheus/prometheus/cmd/prometheus))

# What the manager of a kind works on is in its module: the CRDs, and which webhooks it has.
define manager-rule # $(1): directory in hack/tools and in bin/, $(2): the module
$(BIN)/$(1)/webhooks.yaml: $$(STAMP_$(1))
	@rm -rf $$(@D) && mkdir -p $$(@D)/crd
	dir=$$$$(cd hack/tools/$(1) && $(GO) mod download && $(GO) list -m -f '{{.Dir}}' $(2)) && \
		install -m 644 $$$$dir/config/crd/bases/*.yaml $$(@D)/crd && install -m 644 $$$$dir/config/webhook/manifests.yaml $$@
endef
$(eval $(call manager-rule,kruise,github.com/openkruise/kruise))
$(eval $(call manager-rule,lws,sigs.k8s.io/lws))

# Without those of Rollouts and Experiments, the controller works on AnalysisRuns only.
ROLLOUTS := github.com/argoproj/argo-rollouts
$(BIN)/argo-rollouts-crd/done: $(STAMP_argo-rollouts)
	@rm -rf $(@D) && mkdir -p $(@D)
	dir=$$(cd hack/tools/argo-rollouts && $(GO) mod download $(ROLLOUTS) && $(GO) list -m -f '{{.Dir}}' $(ROLLOUTS)) && \
		install -m 644 $$dir/manifests/crds/*analysis-*-crd.yaml $(@D) && touch $@

# The schemas of the objects that the chart creates for the Prometheus operator. The operator itself is not built.
OPERATOR := github.com/prometheus-operator/prometheus-operator
OPERATOR_CRDS := $(BIN)/prometheus-operator/crd.yaml
$(OPERATOR_CRDS): $(STAMP_prometheus-operator)
	@mkdir -p $(@D)
	dir=$$(cd hack/tools/prometheus-operator && $(GO) mod download $(OPERATOR) && echo "$$($(GO) env GOMODCACHE)/$(OPERATOR)@$$(awk '$$2 == "$(OPERATOR)" {print $$3}' go.mod)") && \
		for kind in servicemonitors prometheusrules; do echo ---; cat $$dir/example/prometheus-operator-crd/monitoring.coreos.com_$$kind.yaml; done > $@

# bin/oldest is a bin/ of its own for UNITED_BIN_DIR: the oldest Kubernetes that is tested, and links to all else.
OLDEST := $(BIN)/oldest
OLDEST_LINKS := $(addprefix $(OLDEST)/,etcd kwok kruise-manager kruise lws-manager lws argo-rollouts argo-rollouts-crd helm united-manager prometheus-operator)
$(foreach b,$(K8S_BINARIES),$(eval $(call tool-rule,controlplane-oldest,oldest/$(b),k8s.io/kubernetes/cmd/$(b))))
$(OLDEST_LINKS):
	@mkdir -p $(@D) && ln -sf ../$(@F) $@

# The manager and the chart of an earlier version, which TestUpgradeUnderWay upgrades and rolls back to: from before the
# first release, a commit; then, the last release. A clone may lack it. TestUpgradeKeepsNames needs one that gives shorter names to
# revisions.
EARLIER := c1f40a8fa02c2984e596fd2d6a52e2ff0f307953
EARLIER_NAMES := 5214b70786577d60884db101c90aa1797545aada
EARLIER_DIR := $(BIN)/earlier/$(EARLIER)
$(EARLIER_DIR)/united-manager:
	@rm -rf $(@D) && mkdir -p $(@D)
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; git archive $(EARLIER) | tar -x -C "$$tmp"; \
	cp -r "$$tmp/charts/united" $(@D)/chart; cd "$$tmp" && CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o $@ ./cmd/manager

.PHONY: earlier earlier-names
earlier-names:
	@$(MAKE) --no-print-directory earlier EARLIER=$(EARLIER_NAMES)
earlier:
	@if git cat-file -e '$(EARLIER)^{commit}' 2>/dev/null; then $(MAKE) --no-print-directory $(EARLIER_DIR)/united-manager && echo $(EARLIER_DIR); \
	else echo 'this clone does not have $(EARLIER): git fetch --unshallow' >&2; fi

.PHONY: tools control-plane control-plane-oldest kind-managers
tools: control-plane $(CHART_TOOLS) $(BIN)/controller-gen $(BIN)/crd-ref-docs $(BIN)/golangci-lint $(BIN)/govulncheck $(BIN)/promtool $(BIN)/prometheus $(OPERATOR_CRDS) kind-managers control-plane-oldest ## Build every tool into bin/ (15 to 25 minutes on 2 cores, once)
control-plane: $(CONTROL_PLANE) ## Build etcd, the Kubernetes control plane, kubectl and kwok into bin/
kind-managers: $(KIND_MANAGERS) ## Build the managers of OpenKruise and LeaderWorkerSet, and the controller of Argo Rollouts, into bin/
control-plane-oldest: $(addprefix $(OLDEST)/,$(K8S_BINARIES)) $(BIN)/etcd $(BIN)/kwok $(OLDEST_LINKS) ## Build the oldest Kubernetes that is tested into bin/oldest

##### Build and generate ###############################################################################################

.PHONY: build
build: build-united-manager build-kubectl-united ## Build bin/united-manager and the plugin bin/kubectl-united

# kubectl calls the second one for completion.
PLUGIN_FLAGS = -trimpath -ldflags '-s -w -X github.com/unitedworkloads/united/cmd/kubectl-united/command.release=v$(VERSION)'
.PHONY: build-kubectl-united install-plugin
build-kubectl-united:
	$(GO) build $(PLUGIN_FLAGS) -o $(BIN)/kubectl-united ./cmd/kubectl-united
	@install -m 755 cmd/kubectl-united/kubectl_complete-united $(BIN)/

PLUGIN_DIR ?= $(or $(shell $(GO) env GOBIN),$(shell $(GO) env GOPATH)/bin)
install-plugin: build-kubectl-united ## Install the plugin, so that kubectl finds it: into PLUGIN_DIR, by default where go install puts programs
	@mkdir -p '$(PLUGIN_DIR)' && install -m 755 $(BIN)/kubectl-united $(BIN)/kubectl_complete-united '$(PLUGIN_DIR)'
	@echo 'installed in $(PLUGIN_DIR): kubectl united --help'

# The image and the release have the version of the tag; without one, a development version of that of the chart.
DIRTY = $(shell test -z "$$(git status --porcelain --untracked-files=no)" || echo .dirty)
TAG = $(if $(DIRTY),,$(shell git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null))
CHART_VERSION = $(shell awk '$$1 == "version:" {print $$2}' charts/united/Chart.yaml)
VERSION ?= $(if $(TAG),$(patsubst v%,%,$(TAG)),$(CHART_VERSION)-dev.g$(shell git rev-parse --short=12 HEAD)$(DIRTY))
REVISION = $(shell git rev-parse HEAD)
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
PLATFORMS ?= linux/amd64 linux/arm64
DIST ?= $(CURDIR)/dist
IMAGE_DIR ?= $(DIST)/image
IMAGE_TOOL := $(BIN)/united-image

$(IMAGE_TOOL): $(wildcard hack/image/*.go) hack/image/go.mod hack/image/go.sum
	cd hack/image && CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $@ .

.PHONY: version
version: ## Print the version that image and release have
	@echo '$(VERSION)'

# Without the state of the repository in the binary, the same sources give the same binary in every clone.
.PHONY: image image-push release
image: $(IMAGE_TOOL) ## Build the image into dist/image, for PLATFORMS (linux/amd64 linux/arm64), without a container engine
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; binaries=; \
	for platform in $(PLATFORMS); do \
		file=$$tmp/$${platform//\//-}; binaries+=" $$platform=$$file"; \
		echo "$$platform"; \
		CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO) build -trimpath -buildvcs=false -ldflags '-s -w' -o "$$file" ./cmd/manager; \
	done; \
	$(IMAGE_TOOL) build -layout '$(IMAGE_DIR)' -created '$(SOURCE_DATE_EPOCH)' -version '$(VERSION)' -revision '$(REVISION)$(DIRTY)' $$binaries

image-push: image ## Build the image, and push it to IMAGE, such as registry.example/united-manager:v1
	@test -n '$(IMAGE)' || { echo 'say where to: make image-push IMAGE=registry.example/united-manager:v1' >&2; exit 1; }
	$(IMAGE_TOOL) push -layout '$(IMAGE_DIR)' '$(IMAGE)'

# One archive of the plugin for each platform, and the manifest for Krew. The same sources give the same archives.
PLUGIN_PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
.PHONY: plugin-archives
plugin-archives:
	@mkdir -p '$(DIST)' && rm -f '$(DIST)'/kubectl-united-*.tar.gz
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; cp LICENSE cmd/kubectl-united/kubectl_complete-united* "$$tmp"; \
	for platform in $(PLUGIN_PLATFORMS); do \
		echo "$$platform"; program=kubectl-united completes=kubectl_complete-united; [[ $$platform != windows/* ]] || { program+=.exe; completes+=.cmd; }; \
		CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO) build -buildvcs=false $(PLUGIN_FLAGS) -o "$$tmp/$$program" ./cmd/kubectl-united; \
		chmod 755 "$$tmp"/kubectl*; \
		tar -C "$$tmp" --sort=name --mtime='@$(SOURCE_DATE_EPOCH)' --owner=0 --group=0 --numeric-owner -cf - LICENSE $$completes "$$program" | \
			gzip -n > '$(DIST)/kubectl-united-$(VERSION)-'"$${platform//\//-}.tar.gz"; \
	done
	@mkdir -p '$(DIST)/krew' && VERSION='$(VERSION)' DIST='$(DIST)' hack/krew.sh > '$(DIST)/krew/united.yaml'

# The SBOM of the program in each archive of the plugin, and in the image for each platform, of what Go has written into it.
# Trap: the platform in the names of the modules is that of the environment.
.PHONY: sboms
sboms: $(BIN)/cyclonedx-gomod $(IMAGE_TOOL)
	@rm -f '$(DIST)'/*.cdx.json
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	sbom() { GOOS=$${1%/*} GOARCH=$${1#*/} $(BIN)/cyclonedx-gomod bin -json -std -noserial -notimestamp -version 'v$(VERSION)' \
		-output "$(DIST)/$$3-$(VERSION)-$${1//\//-}.cdx.json" "$$2"; }; \
	for platform in $(PLATFORMS); do \
		$(IMAGE_TOOL) unpack -layout '$(IMAGE_DIR)' -platform "$$platform" "$$tmp/$$platform"; \
		sbom "$$platform" "$$tmp/$$platform/united-manager" united-manager; \
	done; \
	for platform in $(PLUGIN_PLATFORMS); do \
		tar -C "$$tmp" -xzf '$(DIST)/kubectl-united-$(VERSION)-'"$${platform//\//-}.tar.gz"; program=kubectl-united; [[ $$platform != windows/* ]] || program+=.exe; \
		sbom "$$platform" "$$tmp/$$program" kubectl-united; \
	done

RELEASE_CHART = $(DIST)/united-$(VERSION).tgz
release: image $(BIN)/helm ## Put chart, CRDs, manifests, image, plugin, SBOMs and checksums into dist/, with the version of the tag
	@mkdir -p '$(DIST)' && rm -f '$(DIST)'/*.tgz '$(DIST)'/*.yaml '$(DIST)'/*.tar '$(DIST)'/checksums.* '$(DIST)/image.txt'
	@$(MAKE) --no-print-directory plugin-archives
	@$(BIN)/helm package charts/united --version '$(VERSION)' --app-version 'v$(VERSION)' --destination '$(DIST)' >/dev/null
	@for file in config/crd/*.yaml; do echo ---; cat "$$file"; done > '$(DIST)/crds.yaml'
	@{ cat config/rbac/00_namespace.yaml; $(BIN)/helm template united '$(RELEASE_CHART)' --namespace united-system; } > '$(DIST)/install.yaml'
	@$(IMAGE_TOOL) archive -layout '$(IMAGE_DIR)' '$(DIST)/united-manager-$(VERSION).tar'
	@$(MAKE) --no-print-directory sboms
	@cd '$(DIST)' && sha256sum *.tgz *.tar.gz *.yaml *.tar *.cdx.json > checksums.txt && cat checksums.txt

# It takes the files of `make release` as they are, pushes the image, and signs: the checksums, and the image, with its SBOMs. Without
# COSIGN_FLAGS, cosign signs as the workflow that runs it, and its log is public. --k8s-keychain also takes GITHUB_TOKEN for ghcr.io, as
# the image tool does.
COSIGN ?= $(BIN)/cosign
COSIGN_FLAGS ?=
SIGN_IMAGE = --yes --k8s-keychain $(COSIGN_FLAGS)
.PHONY: publish
publish: $(IMAGE_TOOL) $(COSIGN) ## Push the image that make release has put into dist/ to IMAGE, and sign it and the checksums
	@test -n '$(IMAGE)' || { echo 'say where to: make publish IMAGE=registry.example/united-manager:v1' >&2; exit 1; }
	@cd '$(DIST)' && sha256sum --quiet --check checksums.txt
	@tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; $(IMAGE_TOOL) archive -layout '$(IMAGE_DIR)' "$$tmp/image" && cmp "$$tmp/image" '$(DIST)'/united-manager-*.tar
	@set -eo pipefail; cd '$(DIST)'; shopt -s failglob; sboms=(united-manager-*.cdx.json); \
	image=$$($(IMAGE_TOOL) push -layout '$(IMAGE_DIR)' '$(IMAGE)'); \
	$(COSIGN) sign-blob --yes $(COSIGN_FLAGS) --bundle checksums.sigstore.json checksums.txt; \
	$(COSIGN) sign $(SIGN_IMAGE) --recursive "$$image"; \
	for sbom in "$${sboms[@]}"; do $(COSIGN) attest $(SIGN_IMAGE) --type cyclonedx --predicate "$$sbom" "$$image"; done; \
	echo "$${image#*@sha256:}  $${image%@*}" > image.txt; echo "$$image"

GENERATED := ':(glob)apis/**/zz_generated.*.go' config/crd config/rbac/role.yaml charts/united/generated ':(glob)charts/*/README.md' docs/api.md docs/cli.md config/argocd

.PHONY: generate
generate: $(BIN)/controller-gen $(BIN)/crd-ref-docs ## Generate deep copies, the CRD, the RBAC role, parts of the charts, the patch for Argo CD, docs/api.md and docs/cli.md
	$(BIN)/controller-gen object:headerFile=hack/boilerplate.go.txt paths=./apis/...
	$(BIN)/controller-gen crd paths=./apis/... output:crd:artifacts:config=config/crd
	$(GO) run ./hack/crd
	$(BIN)/controller-gen rbac:roleName=united-manager paths=./controllers/... paths=./cmd/... \
		output:rbac:artifacts:config=config/rbac
	$(GO) run ./hack/chart
	$(GO) run ./hack/cli
	$(GO) run ./hack/gitops
	$(BIN)/crd-ref-docs --log-level ERROR --renderer markdown --config hack/docs/api/config.yaml --templates-dir hack/docs/api \
		--max-depth 20 --source-path apis --output-path docs/api.md

.PHONY: fmt
fmt: $(BIN)/golangci-lint ## Format the code
	$(BIN)/golangci-lint fmt ./...

##### Checks ###########################################################################################################

.PHONY: verify
verify: generate ## Fail when generated files, go.mod or the format are not up to date (the index is the reference)
	@git diff --exit-code -- $(GENERATED) || { echo 'generated files differ: git add what make generate wrote' >&2; exit 1; }
	@new=$$(git ls-files --others --exclude-standard -- $(GENERATED)); \
		test -z "$$new" || { echo "generated files are not in git: $$new" >&2; exit 1; }
	$(GO) mod tidy -diff
	cd hack/image && $(GO) mod tidy -diff
	@hack/npm.sh
	@bad=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go' | xargs -r ls -d 2>/dev/null)); \
		test -z "$$bad" || { echo "not formatted (make fmt): $$bad" >&2; exit 1; }

.PHONY: lint
lint: $(BIN)/golangci-lint $(BIN)/helm vulnerabilities ## Run the linters, and govulncheck where its database can be reached (GOVULNDB_REQUIRED=1: or fail)
	$(BIN)/golangci-lint run ./...
	cd hack/image && $(BIN)/golangci-lint run ./...
	$(BIN)/helm lint --strict --quiet $(CHARTS)

# With -version govulncheck tells when its database was updated, if it can reach it. That it cannot is no fault of the
# code, but no reason to release it; whatever goes wrong after that fails. Not every system has timeout.
GOVULNDB ?= https://vuln.go.dev
GOVULNDB_REQUIRED ?=
.PHONY: vulnerabilities
vulnerabilities: $(BIN)/govulncheck
	@limit=; if type -p timeout >/dev/null; then limit='timeout 20'; fi; \
	if grep -q '^DB updated: ' <<<"$$($$limit $(BIN)/govulncheck -db '$(GOVULNDB)' -version 2>&1)"; then \
		$(BIN)/govulncheck -db '$(GOVULNDB)' ./...; \
	elif [[ -n '$(GOVULNDB_REQUIRED)' ]]; then \
		echo 'govulncheck: the vulnerability database cannot be reached: $(GOVULNDB)' >&2; exit 1; \
	else \
		echo 'govulncheck: the vulnerability database cannot be reached, skipped: $(GOVULNDB)'; \
	fi

# The environment of the tests, and of the control planes that they start. With less garbage collection kube-apiserver
# and the walks of small worlds take a tenth less time; the limit is for each process, and not a hard one. Without DWARF,
# which nothing here reads, linking takes about a quarter less time; the stacks of a panic do not need it.
run-tests = GOGC=300 GOMEMLIMIT=2GiB $(GO) test -ldflags=-w $(1) $(TESTFLAGS)
# Of packages that start a control plane: their inputs (the binaries) are not known to the test cache.
on-plane = $(call run-tests,-count 1 -timeout 80m $(1))
# What comes after it in the same shell runs on the oldest Kubernetes.
on-oldest = export UNITED_BIN_DIR=$(OLDEST); echo "Kubernetes $(call k8s-version,controlplane-oldest):"

# The tests by folder. Those beside the first one have few waits, so two of them run at once.
CORE := ./test/e2e/core
BESIDE_CORE := ./test/integration ./test/conformance ./test/chart/core
NO_PLANE = $$($(GO) list ./... | grep -vE '/test/(e2e/|integration|conformance|chart/|cluster|browser)')
# Those of which -short leaves something out.
PLANNER := ./controllers/united/planner
LONG = $$(grep -rlE 'testing\.Short\(|worlds\.Run\[' --include='*_test.go' controllers test | xargs -n 1 dirname | sed 's|^|./|' | sort -u | grep -vx '$(PLANNER)')

# $(1) are targets, each a part. They run at the same time, and their results are printed again at the end. What needs no
# control plane only computes: it gets the time that the other parts leave.
# Trap: with several control planes of different packages at once, each request waits for the processor at every step
# between client, kube-apiserver and etcd, and tests run out of time. So one part has all the control planes.
TEST_LOGS := $(BIN)/test-logs
WALKS_CUT := $(TEST_LOGS)/walks-that-ended-early
in-parts = rm -rf $(TEST_LOGS) && mkdir -p $(TEST_LOGS); rc=0; $(MAKE) --no-print-directory -k -j 2 $(1) || rc=1; \
	echo 'All results (the output of each part is in $(TEST_LOGS)):'; \
	if test -f $(WALKS_CUT); then echo "$$(wc -l <$(WALKS_CUT)) walks ended before they had seen all states: $(WALKS_CUT) says how far they came"; fi; \
	grep -h '^ok' $(TEST_LOGS)/*.txt; grep -hE '^(--- FAIL|panic:|FAIL[[:space:]])' $(TEST_LOGS)/*.txt; exit $$rc
log = 2>&1 | tee $(TEST_LOGS)/$@.txt
nicely = renice -n 19 $$$$ >/dev/null 2>&1

# go test says nothing of a test that skips a part of itself. This does.
.PHONY: skipped-tests
skipped-tests: ## Say which tests do not run here, and why
	@test "$$(uname)" = Linux || echo 'skipped (TestImage): this is not Linux: the image is neither built nor run'
	@test "$$(id -u)" = 0 || echo 'skipped (a part of TestImage): not run as root: the image is not run under chroot'
	@for commit in $(EARLIER) $(EARLIER_NAMES); do git cat-file -e "$$commit^{commit}" 2>/dev/null || \
		echo "skipped (TestUpgradeUnderWay, TestUpgradeKeepsNames): git does not find commit $$commit here: git fetch --unshallow"; done

.PHONY: test test-part-core test-part-unit test-unit
test: build control-plane $(BIN)/helm ## Run the tests that a change needs: unit, property, small walks, and on the real control plane the API, the chart and the main job
	@$(call in-parts,test-part-core test-part-unit)

test-part-core:
	@set -o pipefail; { rc=0; $(call on-plane,$(CORE)) || rc=1; $(call on-plane,-p 2 $(BESIDE_CORE)) || rc=1; exit $$rc; } $(log)

test-part-unit:
	@set -o pipefail; { $(nicely); $(call run-tests,-short -timeout 20m $(NO_PLANE)); } $(log)

test-unit: ## Run the tests that need no control plane, as make test does
	@$(call run-tests,-short -timeout 20m $(NO_PLANE))

FULL_TOOLS := build control-plane control-plane-oldest kind-managers $(CHART_TOOLS) $(IMAGE_TOOL) $(BIN)/cyclonedx-gomod $(BIN)/validate-krew-manifest $(BIN)/promtool $(BIN)/prometheus $(OPERATOR_CRDS)
.PHONY: test-full test-part-full test-part-walks test-faults test-hostile test-kinds test-browser chromium test-chart test-charts test-alerts test-walks
test-full: $(FULL_TOOLS) chromium ## Run the tests that make test leaves out: faults, hostile clients, all kinds, the page in Chromium, the chart, whole walks
	@$(call in-parts,test-part-full test-part-walks)

test-part-full:
	@set -o pipefail; { rc=0; \
		for folder in e2e/faults e2e/hostile e2e/kinds browser; do $(call on-plane,./test/$$folder) || rc=1; done; \
		{ $(call on-plane,-p 2 ./test/cluster ./test/chart/full); } || rc=1; \
		( $(on-oldest); $(call on-plane,./test/conformance) ) || rc=1; \
		$(MAKE) --no-print-directory skipped-tests; exit $$rc; } $(log)

# How long the walks may take in all is set, because whole ones take about 45 minutes on an idle machine, and twice that on a slow one.
# Those of the planner take the longest, so they come last, and share what is left.
WALK_MINUTES ?= 35
test-part-walks:
	@set -o pipefail; export WALKS_UNTIL=$$(( $$(date +%s) + 60 * $(WALK_MINUTES) )) WALKS_TOLD='$(WALKS_CUT)'; { $(nicely); rc=0; $(chart-tests) || rc=1; \
		$(call run-tests,-timeout 80m $(LONG)) || rc=1; $(call run-tests,-timeout 80m $(PLANNER)) || rc=1; exit $$rc; } $(log)

test-faults: build control-plane $(BIN)/helm ## Run the tests with killed managers and API servers, lost answers, and stale caches
	@$(call on-plane,./test/e2e/faults)

test-hostile: build control-plane $(BIN)/helm $(BIN)/prometheus ## Run the tests with clients that work against the controller
	@$(call on-plane,./test/e2e/hostile)

test-kinds: build control-plane kind-managers $(BIN)/helm ## Run the tests of every kind of child workload, with the real managers of these kinds
	@$(call on-plane,-p 1 ./test/cluster ./test/e2e/kinds)

test-browser: build control-plane $(BIN)/helm chromium ## Run the tests of the dashboard in Chromium, which is installed if it is missing (Debian)
	@$(call on-plane,./test/browser)

chromium:
	@type -p chromium >/dev/null || { sudo=; test "$$(id -u)" = 0 || sudo=sudo; \
		{ $$sudo apt-get update -qq && $$sudo apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; } >/dev/null || \
		{ echo 'chromium is not installed, and apt-get could not install it: install it, and see that it is on your PATH' >&2; exit 1; }; }

test-chart: $(FULL_TOOLS) ## Run all tests of the chart, of its alerts and of the image
	@rc=0; $(chart-tests) || rc=1; $(call on-plane,-p 1 ./test/chart/...) || rc=1; $(MAKE) --no-print-directory skipped-tests; exit $$rc

test-walks: ## Run the tests that need no control plane, with the whole walks
	@$(call run-tests,-timeout 80m $(NO_PLANE))

ALERTS := charts/united/rules
test-alerts = $(BIN)/promtool check rules --lint=all --lint-fatal $(ALERTS)/alerts.yaml && $(BIN)/promtool test rules $(ALERTS)/alerts_test.yaml charts/united/dashboards/united_test.yaml
# What needs no control plane. The tool of the image is a module of its own: what it needs is no part of the manager.
chart-tests = { rc=0; $(BIN)/helm-unittest $(CHARTS) || rc=1; { $(test-alerts); } || rc=1; ( cd hack/image && $(GO) test ./... ) || rc=1; ( exit $$rc ); }

test-charts: $(BIN)/helm-unittest ## Run the unit tests of the Helm charts
	$(BIN)/helm-unittest $(CHARTS)

test-alerts: $(BIN)/promtool ## Run the tests of the alerts and of the dashboard, with promtool
	$(test-alerts)

# Of kinds whose small worlds have an oracle of their own.
large-worlds = $(GO) test -p 1 -count 1 -timeout 0 ./test/deploymentworlds ./test/clonesetworlds ./test/leaderworkersetworlds -run '^TestWorlds$$' -worlds-large

.PHONY: test-nightly test-oldest test-loaded
test-nightly: test-oldest test-walks chromium ## Run the tests on the oldest Kubernetes, the whole walks, the large small worlds, the page with 10,000 replicas, and more plans
	$(large-worlds)
	@rc=0; $(call on-plane,./test/browser -run '^TestMany$$' -each 100) || rc=1; $(call on-plane,./test/e2e/kinds -run '^TestPlanForesees$$' -planned 8) || rc=1; exit $$rc

test-oldest: $(FULL_TOOLS) ## Run the tests on the real control plane of the oldest Kubernetes that is tested
	@rc=0; { $(on-oldest); $(call on-plane,-p 1 ./test/integration ./test/conformance ./test/cluster ./test/e2e/... ./test/chart/...); } || rc=1; \
	$(MAKE) --no-print-directory skipped-tests; exit $$rc

# Where tests wait, or hang on who is first. LOADED chooses among their tests, LOAD is how many loops keep the cores busy.
LOADED_PACKAGES := ./test/e2e/... ./test/chart/... ./test/cluster ./test/conformance
LOADED ?= .
LOAD ?= $(shell getconf _NPROCESSORS_ONLN)

# Each loop repeatedly checks whether the shell that started it still runs. So it ends with that shell, however that ends,
# by SIGKILL too: nothing has to stop it.
busy-loops = for ((i = 0; i < $(LOAD); i++)); do \
	{ while kill -0 $$$$; do for _ in {1..10000}; do :; done; done; } 2>/dev/null & done

test-loaded: $(FULL_TOOLS) ## Run the tests that depend on timing, while every core is kept busy (LOADED="TestFaults")
	@$(busy-loops); $(call on-plane,-p 1 -run '$(LOADED)' $(LOADED_PACKAGES))

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (30s) each, SIMULATIONS (20) times the worlds of the simulation, and the large small worlds
	@grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | while IFS=: read -r file decl; do \
		echo "== $$file $${decl#func }"; \
		$(GO) test -run '^$$' -fuzz "^$${decl#func }$$" -fuzztime $(FUZZTIME) "$$(dirname $$file)" || exit 1; \
	done
	$(GO) test -count 1 -timeout 0 ./test/simulation -rapid.checks=$(SIMULATIONS)00 -rapid.seed=0
	$(GO) test -count 1 -timeout 0 ./controllers/united/planner -run '^TestExhaustive$$' -small-large
	$(large-worlds)

.PHONY: bench
bench: build control-plane kind-managers $(BIN)/helm ## Measure, and fail when a count is wrong; see docs/benchmarks.md (BENCHFLAGS="-parts canary")
	$(GO) build -o $(BIN)/bench ./test/bench
	@exec $(BIN)/bench $(BENCHFLAGS)

##### Try it ###########################################################################################################

# The programs are built and exec'ed rather than `go run`: go run dies of SIGTERM without passing it on, and the cluster
# would stay. The demo installs United without helm, which takes long to build.
PREPARE := BIN=$(BIN) hack/prepare.sh $(K8S_BINARIES) etcd kwok
.PHONY: playground demo build-playground build-demo build-united-manager
playground: $(if $(filter all,$(KINDS)),kind-managers) ## Start a cluster with United in it, until you press Ctrl-C (KINDS=all: with OpenKruise and LeaderWorkerSet)
	@$(PREPARE) helm united-manager kubectl-united playground
	@KINDS=$(KINDS) UNITED_BIN_DIR=$(BIN) exec $(BIN)/playground

demo: ## Show a canary over three zones, step by step
	@$(PREPARE) united-manager kubectl-united demo
	@UNITED_BIN_DIR=$(BIN) exec $(BIN)/demo

build-united-manager:
	$(GO) build -trimpath -o $(BIN)/united-manager ./cmd/manager
# With -trimpath like the manager: without it, go would compile all of client-go once more.
build-playground build-demo:
	$(GO) build -trimpath -o $(BIN)/$(patsubst build-%,%,$@) ./test/$(patsubst build-%,%,$@)

.PHONY: clean
clean: ## Remove what was built
	rm -rf $(BIN) $(DIST) .playground
