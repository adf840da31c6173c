{{- define "gvDetails" }}
{{- $gv := . }}
Group and version `{{ $gv.GroupVersionString }}`. [Concepts](concepts.md) explains the terms; conditions, reasons and
phases are in [Troubleshooting](troubleshooting.md).

The rules of the CustomResourceDefinition and of the chart's admission policy reject invalid objects at admission, with a message
that names the field. Without the policy, mistakes inside templates are accepted, and the condition `Stalled` reports them.
{{ range $gv.SortedKinds }}{{ template "type" ($gv.TypeForKind .) }}{{ end }}
{{- range $gv.SortedTypes }}{{ if not .GVK }}{{ template "type" . }}{{ end }}{{ end }}
{{- end -}}
