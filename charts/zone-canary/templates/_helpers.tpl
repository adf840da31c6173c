{{- define "zone-canary.fullname" -}}
{{- default .Release.Name .Values.fullnameOverride | trunc 45 | trimSuffix "-" -}}
{{- end -}}

{{- define "zone-canary.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "zone-canary.labels" -}}
{{ include "zone-canary.selectorLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{/*
Handing the replicas over must not lose them: a field that helm owned and does not render any more is removed by server-side
apply, and the API server then defaults it to 1. Ownership is seen in managedFields, so this works with a cluster only.
*/}}
{{- define "zone-canary.checkHandover" -}}
{{- if kindIs "invalid" .Values.replicas -}}
{{- $live := lookup "apps.united.dev/v1alpha1" "UnitedDeployment" .Release.Namespace (include "zone-canary.fullname" .) -}}
{{- $helm := false -}}
{{- $others := false -}}
{{- range (($live.metadata).managedFields) -}}
{{- if hasKey (dig "f:spec" (dict) .fieldsV1) "f:replicas" -}}
{{- if and (eq .manager "helm") (eq .operation "Apply") -}}{{- $helm = true -}}{{- else -}}{{- $others = true -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $helm (not $others) -}}
{{- fail (printf "replicas: this release owns spec.replicas (%v) of UnitedDeployment %s; without a number in the values, the API server would reset it to 1. Hand over the field first: kubectl -n %s scale united %s --replicas=<another number>" $live.spec.replicas $live.metadata.name .Release.Namespace $live.metadata.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
