{{- define "type" }}
{{- $type := . }}
{{- if markdownShouldRenderType $type }}
## {{ $type.Name }}

{{ template "prose" $type.Doc }}
{{- if $type.References }}

Used in: {{ range $i, $ref := $type.SortedReferences }}{{ if $i }}, {{ end }}{{ markdownRenderTypeLink $ref }}{{ end }}.
{{- end }}
{{ if $type.Members }}
| field | type | default | |
| --- | --- | --- | --- |
{{- if $type.GVK }}
| `apiVersion` | string | | `{{ $type.GVK.Group }}/{{ $type.GVK.Version }}` |
| `kind` | string | | `{{ $type.GVK.Kind }}` |
{{- end }}
{{- range $type.Members }}
| `{{ .Name }}` | {{ template "fieldType" . }} | {{ template "fieldDefault" . }} | {{ template "fieldDoc" . }} |
{{- end }}
{{ end }}
{{- if $type.EnumValues }}
| value | |
| --- | --- |
{{- range $type.EnumValues }}
{{- $doc := regexReplaceAll "^\\w+: *" .Doc "" | trim | replace "\n" " " | replace "|" "\\|" }}
| `{{ .Name }}` | {{ substr 0 1 $doc | upper }}{{ substr 1 -1 $doc }} |
{{- end }}
{{ end }}
{{- end }}
{{- end -}}
