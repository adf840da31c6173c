{{- define "gvDetails" }}
{{- $gv := . }}
Group and version `{{ $gv.GroupVersionString }}`. What the words mean is in [concepts.md](concepts.md); conditions, reasons and
phases are in [troubleshooting.md](troubleshooting.md).

Refused at admission is what a rule of the CustomResourceDefinition or of the chart's admission policy forbids, with a message
that names the field. Without the policy, what it would refuse inside of templates is reported as `Stalled`.
{{ range $gv.SortedKinds }}{{ template "type" ($gv.TypeForKind .) }}{{ end }}
{{- range $gv.SortedTypes }}{{ if not .GVK }}{{ template "type" . }}{{ end }}{{ end }}
{{- end -}}
