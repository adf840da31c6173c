{{- define "united.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* Room is left for the longest suffix, -leader-election, within 63 characters: some of the names are label values too. */}}
{{- define "united.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "united.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 45 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "united.managerName" -}}
{{- include "united.fullname" . }}-manager
{{- end -}}

{{- define "united.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "united.managerName" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name must be set when serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Two controllers that watch the same namespace would undo what the other does. Helm sees other releases only as it installs
and upgrades: not with `helm template`, and not without the permission to list Deployments. */}}
{{- define "united.onlyOne" -}}
{{- range (lookup "apps/v1" "Deployment" "" "").items -}}
{{- $labels := default dict .metadata.labels -}}
{{- $own := and (eq .metadata.namespace $.Release.Namespace) (eq .metadata.name (include "united.managerName" $)) -}}
{{- if and (eq (default "" (get $labels "app.kubernetes.io/part-of")) "united") (eq (default "" (get $labels "app.kubernetes.io/component")) "manager") (not $own) (gt (int .spec.replicas) 0) -}}
{{- $theirs := list -}}
{{- range (first .spec.template.spec.containers).args -}}
{{- if hasPrefix "--watch-namespaces=" . -}}
{{- $theirs = splitList "," (trimPrefix "--watch-namespaces=" .) -}}
{{- end -}}
{{- end -}}
{{- $both := list -}}
{{- range $.Values.watchNamespaces -}}
{{- if or (not $theirs) (has . $theirs) -}}
{{- $both = append $both . -}}
{{- end -}}
{{- end -}}
{{- if not $.Values.watchNamespaces -}}
{{- $both = default (list "all namespaces") $theirs -}}
{{- end -}}
{{- if $both -}}
{{- fail (printf "watchNamespaces: another release of United, the Deployment %s in namespace %s, watches %s already; only one controller may watch a namespace: see https://github.com/unitedworkloads/united/blob/main/docs/operations.md#in-some-namespaces-only" .metadata.name .metadata.namespace (join ", " $both)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The Secret with the Prometheus servers; empty without any. */}}
{{- define "united.serversSecret" -}}
{{- with .Values.checks.prometheus -}}
{{- if .existingSecret -}}
{{- .existingSecret -}}
{{- else if .servers -}}
{{- include "united.fullname" $ }}-prometheus
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The Secrets that the manager reads as files. It does more than checks, so it starts without that of the servers. */}}
{{- define "united.secrets" -}}
{{- $secrets := list -}}
{{- with include "united.serversSecret" . -}}
{{- $secrets = append $secrets (dict "name" "prometheus" "secret" (dict "secretName" . "optional" true)) -}}
{{- end -}}
{{- if and .Values.metrics.enabled .Values.metrics.certSecret -}}
{{- $secrets = append $secrets (dict "name" "metrics" "secret" (dict "secretName" .Values.metrics.certSecret)) -}}
{{- end -}}
{{- toYaml $secrets -}}
{{- end -}}

{{/* What checks may name, as the manager takes it: deployments.apps, or services. */}}
{{- define "united.checkObjects" -}}
{{- $resources := list -}}
{{- range $object := .Values.checks.objects -}}
{{- range $object.resources -}}
{{- $resources = append $resources (printf "%s.%s" . $object.apiGroup | trimSuffix ".") -}}
{{- end -}}
{{- end -}}
{{- join "," $resources -}}
{{- end -}}

{{- define "united.selectorLabels" -}}
app.kubernetes.io/name: {{ include "united.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: manager
{{- end -}}

{{/* The chart's own labels win over those from the values, and no key is there twice. */}}
{{- define "united.labels" -}}
{{- $own := dict
  "app.kubernetes.io/name" (include "united.name" .)
  "app.kubernetes.io/instance" .Release.Name
  "app.kubernetes.io/version" .Chart.AppVersion
  "app.kubernetes.io/part-of" "united"
  "app.kubernetes.io/managed-by" .Release.Service
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-")
-}}
{{- toYaml (merge $own .Values.commonLabels) -}}
{{- end -}}

{{- define "united.podLabels" -}}
{{- toYaml (merge (include "united.selectorLabels" . | fromYaml) (include "united.labels" . | fromYaml) .Values.podLabels) -}}
{{- end -}}

{{- define "united.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "united.subjects" -}}
subjects:
- kind: ServiceAccount
  name: {{ include "united.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{/* The namespaces of a policy about child workloads. */}}
{{- define "united.watched" -}}
{{- with .Values.watchNamespaces -}}
namespaceSelector:
  matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: In
    values: {{ toJson . }}
{{- else -}}
namespaceSelector: {}
{{- end -}}
{{- end -}}

{{/* The users that may write child workloads: the manager, the controllers of Kubernetes, with or without ServiceAccounts of
their own, and those of the kinds. Not that of HorizontalPodAutoscalers: one of a child would release. */}}
{{- define "united.childWriters" -}}
{{- $users := list (printf "system:serviceaccount:%s:%s" .Release.Namespace (include "united.serviceAccountName" .)) "system:kube-controller-manager" -}}
{{- range list "deployment-controller" "generic-garbage-collector" "job-controller" "namespace-controller" "replicaset-controller" "statefulset-controller" "ttl-after-finished-controller" -}}
{{- $users = append $users (printf "system:serviceaccount:kube-system:%s" .) -}}
{{- end -}}
- name: not-by-a-controller
  expression: >-
    !(request.userInfo.username in {{ toJson (concat $users .Values.authorization.writers) }})
# kubectl united plan asks what would become of the children, as the manager would write them, and changes nothing.
- name: not-planned
  expression: >-
    !(has(request.dryRun) && request.dryRun && has(request.options) && has(request.options.fieldManager) && request.options.fieldManager == 'united')
{{- end -}}

{{/* A generated file without its first line, which says that it is generated. */}}
{{- define "united.generated" -}}
{{- $path := printf "generated/%s.yaml" .path -}}
{{- $text := required (printf "the chart is incomplete: %s is missing" $path) (.root.Files.Get $path) -}}
{{- regexReplaceAll "^#[^\n]*\n" $text "" | trimSuffix "\n" -}}
{{- end -}}
